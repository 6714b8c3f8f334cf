"""What a call leaves on the exception that comes out of it: one note, the record of attempts, a nesting mark.

The trail lies in the exception's ``__dict__``. It holds no exception and no frame, so it makes no cycle, and
pickles with the exception. A new trail replaces an old one: an exception object that is raised again and
again does not grow, neither in notes nor in traceback entries.
"""

from __future__ import annotations

import sys

from perdure import clock
from perdure.durations import human
from perdure.engine.naming import call_id, operation
from perdure.outcome import AttemptRecord, Outcome, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType, TracebackType
    from typing import Any

    from perdure.core.decide import Stop
    from perdure.engine.run import Run
    from perdure.faults import Fault

    # number, when the attempt began (None: unknown) and failed, fault, delay, source, type and text of the error
    RawRecord = tuple[int, float | None, float, Fault, float | None, str | None, type[BaseException], str]

KEY = "_perdure_trail"
PREFIX = "perdure: "
TEXT = 500
"""Error texts are kept up to so many characters."""

_dict_of: Callable[[BaseException], dict[str, object]] = BaseException.__dict__["__dict__"].__get__

MARKED = {StopReason.ATTEMPTS, StopReason.DEADLINE, StopReason.BUDGET, StopReason.HINT}
"""Where an inner call stopped for one of these, the error has been retried enough for outer calls too."""


def public(raw: RawRecord, start: float) -> AttemptRecord:
    """The record that people see, made when someone looks at it; ``start`` is when the call began."""
    number, began, ended, fault, delay, source, kind, text = raw
    error = f"{kind.__name__}: {text[:TEXT]}" if text else kind.__name__
    if began is None:
        return AttemptRecord(number, None, None, fault, delay, source, error)
    return AttemptRecord(number, began - start, ended - began, fault, delay, source, error)


RELAYS = {"concurrent", "asyncio", "trio", "outcome", "anyio"}
"""What raises in one task or thread the error of another."""


class Trail:
    """The record of one call that gave up; see the module."""

    __slots__ = (
        "at",
        "call_id",
        "elapsed",
        "epoch",
        "frame",
        "function",
        "marked",
        "number",
        "operation",
        "raw",
        "stack",
        "start",
        "stop",
        "tail",
    )

    def __init__(self, run: Run, stop: StopReason, now: float, *, marked: bool) -> None:
        self.call_id = call_id(run)
        self.operation = operation(run)
        self.number = run.number
        self.stop = stop
        self.start = run.since()
        self.elapsed = now - self.start
        self.raw: Sequence[RawRecord | AttemptRecord] = tuple(run.records)
        self.marked = marked
        self.at = now
        self.function: int | None = id(run.fn)
        self.stack: frozenset[int] = frozenset(_frame_ids() if marked else ())
        self.epoch = clock.epoch
        self.tail = self.frame = 0  # of the traceback, see attach()

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """The attempts as public records."""
        return tuple(one if isinstance(one, AttemptRecord) else public(one, self.start) for one in self.raw)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave behind what only means something in this process: frames, ids, times."""
        state = (self.call_id, self.operation, self.number, self.stop, self.elapsed, self.records)
        return _revive, state


def _revive(
    call_id: str,
    operation: str,
    number: int,
    stop: StopReason,
    elapsed: float,
    records: tuple[AttemptRecord, ...],
) -> Trail:
    trail = Trail.__new__(Trail)
    trail.call_id, trail.operation, trail.number = call_id, operation, number
    trail.stop, trail.elapsed, trail.raw = stop, elapsed, records
    trail.start = 0.0
    trail.marked, trail.at, trail.function, trail.stack, trail.tail = False, 0.0, None, frozenset(), 0
    trail.epoch, trail.frame = 0, 0
    return trail


def attempts_of(failed: BaseException | Outcome[object]) -> tuple[AttemptRecord, ...]:
    """The attempts that failed behind an exception (or an Outcome), first to last; () where none is known.

    Each record has the attempt's number, times, fault, the delay after it and where that came from, and the
    error's text. Safe from any thread or task.
    """
    if isinstance(failed, Outcome):
        return failed.records
    trail = trail_of(failed)
    return () if trail is None else trail.records


def trail_of(error: BaseException) -> Trail | None:
    """The trail on this very exception, or None."""
    trail = _dict_of(error).get(KEY)
    return trail if isinstance(trail, Trail) else None


def attach(error: BaseException, trail: Trail, note: str) -> None:
    """Leave the trail and its note on the error, in place of an earlier call's."""
    values = _dict_of(error)
    values[KEY] = trail
    trace = error.__traceback__
    trail.tail, trail.frame = id(trace), 0 if trace is None else id(trace.tb_frame)
    notes = values.get("__notes__")
    if isinstance(notes, list):
        _drop_ours(notes)  # pyright: ignore[reportUnknownArgumentType] # of whatever
    add_note(error, note)


def _drop_ours(notes: list[Any]) -> None:
    notes[:] = [one for one in notes if not str(one).startswith(PREFIX)]


def add_note(error: BaseException, note: str) -> None:
    """Add a note, but not the same one twice."""
    text = PREFIX + note
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list) or text not in notes:
        try:
            error.add_note(text)
        except Exception:  # noqa: BLE001, S110 - an exception class that refuses notes keeps its error
            pass


def enclosed(error: BaseException, run: Run) -> Trail | None:
    """The mark that an inner call, made within this one, left on the error or on what caused it.

    On the same stack the inner call saw this call's frame below it. A call in another task or thread cannot:
    there its mark counts when it was made since this call began, by another function, and the error came here
    without being raised anew (as an exception object that several functions share would be).
    """
    trace = error.__traceback__
    known = run.began is not None  # a policy without a deadline read no clock before its first failure
    for one in _marked(error):
        since_start = known and one.at >= run.since()
        if trace is not None and id(trace.tb_frame) in one.stack:
            if since_start or not known:
                return one
        elif since_start and one.function != id(run.fn) and not _raised_anew(trace, one.frame):
            return one
    return None


def _raised_anew(trace: TracebackType | None, frame: int) -> bool:
    """Whether somebody but a relay between tasks raised the error with its object, above this frame."""
    from opcode import opmap

    while trace is not None and id(trace.tb_frame) != frame:
        code, at = trace.tb_frame.f_code.co_code, trace.tb_lasti
        is_raise = code[at] == opmap["RAISE_VARARGS"] and code[at + 1] > 0
        if is_raise and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in RELAYS:
            return True
        trace = trace.tb_next
    return False


def trim(error: BaseException, tail: int) -> None:
    """Cut off the traceback entries that an earlier raise of the same object left at the end."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if id(trace.tb_next) == tail:
            trace.tb_next = None
            return
        trace = trace.tb_next


def explain_stop(run: Run, stop: Stop, elapsed: float, why: str) -> str:
    """The sentence for people: how many attempts, how long, and why no more."""
    count = f"{run.number} attempt{'' if run.number == 1 else 's'}"
    return f"gave up after {count} in {human(elapsed)}: {_reason(run, stop, elapsed, why)}"


def _reason(run: Run, stop: Stop, elapsed: float, why: str) -> str:
    policy, reason, delay = run.policy, stop.reason, stop.delay or 0.0
    if reason is StopReason.ATTEMPTS:
        return "retries are disabled" if run.disabled else f"no attempts left (attempts={run.allowed})"
    if reason is StopReason.DEADLINE:
        own = policy.deadline is not None and elapsed + delay > policy.deadline
        what = f"deadline of {human(policy.deadline or 0.0)}" if own else "the caller's deadline"
        return f"{what} leaves no room for the next {f'{human(delay)} wait' if delay else 'attempt'}"
    if reason is StopReason.HINT:
        return f"the server asks for a wait of {human(delay)}, above hint_cap of {human(policy.hint_cap)}"
    return {
        StopReason.PERMANENT: f"not worth a retry ({why})",
        StopReason.NEUTRAL: f"not a failure of what was called ({why})",
        StopReason.UNSAFE: f"the effect may have happened and repeating it is not safe ({why})",
        StopReason.SHUTDOWN: "the process is shutting down",
        StopReason.REJECTED: "the result is still one that reject= refuses",
        StopReason.UNREPLAYABLE: "an argument is a generator that was already started",
    }.get(reason, str(reason))


def _marked(error: BaseException) -> Iterator[Trail]:
    """Marks on the error, its explicit causes and the members of groups; bounded."""
    todo, seen = [error], 0
    while todo and seen < 32:
        one = todo.pop()
        seen += 1
        trail = trail_of(one)
        if trail is not None and trail.marked and trail.epoch == clock.epoch:
            yield trail
        if one.__cause__ is not None:
            todo.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            members: tuple[BaseException, ...] = one.exceptions  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # of any kind
            todo.extend(members)


def _frame_ids() -> Iterator[int]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield id(frame)
        frame = frame.f_back
