"""What a call leaves on the exception that comes out of it: one note, the record of attempts, a nesting mark.

The trail lies in the exception's ``__dict__``. It holds no exception and no frame, so it makes no cycle, and
pickles with the exception. A new trail replaces an old one: an exception object that is raised again and
again does not grow, neither in notes nor in traceback entries.
"""

from __future__ import annotations

from copy import copy

from perdure import clock
from perdure.durations import human
from perdure.engine.frames import is_guarded
from perdure.engine.naming import call_id, operation
from perdure.engine.nesting import around, count_trail, is_fresh, length_of
from perdure.engine.responses import KEY
from perdure.faults.chain import leaves
from perdure.faults.rules import UNDECIDED
from perdure.outcome import AttemptRecord, Outcome, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from perdure.core.decide import Stop
    from perdure.engine.run import Run
    from perdure.faults import Fault

    # number, when the attempt began (None: unknown) and failed, fault, delay, source, type and text of the error
    RawRecord = tuple[int, float | None, float, Fault, float | None, str | None, type[BaseException], str]

SEEN = "_perdure_seen"
PREFIX = "perdure: "
_REMEDY = ": if it is, name it in on= or register() it"
TEXT = 500
"""Error texts are kept up to so many characters."""

dict_of: Callable[[BaseException], dict[str, object]] = BaseException.__dict__["__dict__"].__get__


class Trail:
    """The record of one call that gave up; see the module, and for the mark ``perdure.engine.nesting``."""

    __slots__ = (
        *("call_id", "operation", "number", "stop", "start", "elapsed", "raw", "marked", "at"),
        *("around", "epoch", "serial", "tail", "length"),
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
        self.around: tuple[object, ...] = around() if marked else ()
        self.epoch = clock.epoch
        self.serial = count_trail()
        self.tail = self.length = 0  # of the traceback, see attach()

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """The attempts as public records."""
        return tuple(one if isinstance(one, AttemptRecord) else public(one, self.start) for one in self.raw)

    def __copy__(self) -> Trail:
        twin = Trail.__new__(Trail)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def __reduce__(self) -> tuple[object, ...]:
        """Leave behind what only means something in this process: tokens, ids, times."""
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
    trail.marked, trail.around = False, ()
    trail.start = trail.at = 0.0
    trail.epoch = trail.serial = trail.tail = trail.length = 0
    return trail


def public(raw: RawRecord, start: float) -> AttemptRecord:
    """The record that people see, made when someone looks at it; ``start`` is when the call began."""
    number, began, ended, fault, delay, source, kind, text = raw
    error = f"{kind.__name__}: {text}" if text else kind.__name__
    if began is None:
        return AttemptRecord(number, None, None, fault, delay, source, error)
    return AttemptRecord(number, began - start, ended - began, fault, delay, source, error)


def attempts_of(ended: object) -> tuple[AttemptRecord, ...]:
    """The attempts that failed behind an exception, an Outcome or a response, in order; () where none is known.

    A response has them where an HTTP integration gave it, or a guarded function returned it after a failure.

    Each record has the attempt's number, times, fault, the delay after it and where that came from, and the
    error's text. Of a call with more than a hundred failed attempts, the first ten and the last ninety are
    kept. Safe from any thread or task.
    """
    if isinstance(ended, Outcome):
        return ended.records
    trail = trail_of(ended) if isinstance(ended, BaseException) else getattr(ended, KEY, None)
    return trail.records if isinstance(trail, Trail) else ()


def trail_of(error: BaseException) -> Trail | None:
    """The trail on this very exception, or None."""
    trail = dict_of(error).get(KEY)
    return trail if isinstance(trail, Trail) else None


def attach(error: BaseException, trail: Trail, note: str) -> None:
    """Leave the trail and its note on the error, in place of an earlier call's."""
    _leave(error, trail)
    for leaf in leaves(error):
        if leaf is not error:  # groups are taken apart and made anew on their way
            _leave(leaf, copy(trail))
    notes = dict_of(error).get("__notes__")
    if isinstance(notes, list):
        _drop_ours(notes)  # pyright: ignore[reportUnknownArgumentType] # of whatever
    add_note(error, note)


def _leave(error: BaseException, trail: Trail) -> None:
    trail.tail, trail.length = id(error.__traceback__), length_of(error.__traceback__)
    values = dict_of(error)
    values.pop(SEEN, None)
    values[KEY] = trail


def add_note(error: BaseException, note: str) -> None:
    """Add a note, but not the same one twice."""
    text = PREFIX + note
    try:
        notes = dict_of(error).get("__notes__")
        if not isinstance(notes, list) or text not in notes:
            error.add_note(text)
    except Exception:  # noqa: BLE001, S110 - an exception class that refuses notes keeps its error
        pass


def trim(error: BaseException, run: Run, *, marked: bool) -> None:
    """Cut off the traceback entries that earlier raises of the same object left at the end.

    Within a call: in a fresh traceback our frame that caught the error, and the wrapper's below it, stand only
    at its head. What blocks and calls before this attempt saw, they noted on the error, which is ``marked``.
    """
    entry = error.__traceback__
    if entry is None:
        return
    head = entry.tb_frame
    ours = [frame for frame in (head, head.f_back) if frame is not None and is_guarded(frame)]
    tail, length = _seen_before(error, run) if marked else (0, 0)
    left = length_of(entry) if length else 0
    while (following := entry.tb_next) is not None:
        left -= 1
        if following.tb_frame in ours or (length and left == length and id(following) == tail):
            entry.tb_next = None
            return
        entry = following


def note_seen(error: BaseException) -> None:
    """Note on the error what a block saw of its traceback, before it goes on: it has no frame of ours."""
    dict_of(error)[SEEN] = (id(error.__traceback__), length_of(error.__traceback__))


def _seen_before(error: BaseException, run: Run) -> tuple[int, int]:
    """Where what was seen before this attempt begins in the traceback, and its length; (0, 0): nothing was."""
    seen = dict_of(error).get(SEEN)
    if isinstance(seen, tuple):
        return seen  # pyright: ignore[reportUnknownVariableType] # as note_seen left it
    trail = _stale_trail(error, run)
    return (0, 0) if trail is None else (trail.tail, trail.length)


def _stale_trail(error: BaseException, run: Run) -> Trail | None:
    """The trail of a call that ended before this attempt began: not one inside it, whose entries are fresh."""
    trail = trail_of(error)
    if trail is None or (run.made is None and run.began is None) or is_fresh(trail, run):
        return None
    return trail


def explain_stop(run: Run, stop: Stop, elapsed: float, why: str) -> str:
    """The sentence for people: how many attempts, how long, and why no more."""
    count = f"{run.number} attempt{'' if run.number == 1 else 's'}"
    return f"gave up after {count} in {human(elapsed)}: {_reason(run, stop, elapsed, why)}"


def _reason(run: Run, stop: Stop, elapsed: float, why: str) -> str:
    policy, reason, delay = run.policy, stop.reason, stop.delay or 0.0
    if stop.why:
        return stop.why
    if reason is StopReason.ATTEMPTS:
        return "retries are disabled" if run.disabled else f"no attempts left (attempts={run.allowed})"
    if reason is StopReason.DEADLINE:
        own = policy.deadline is not None and elapsed + delay >= policy.deadline
        what = f"deadline of {human(policy.deadline or 0.0)}" if own else "the caller's deadline"
        return f"{what} leaves no room for the next {f'{human(delay)} wait' if delay else 'attempt'}"
    if reason is StopReason.HINT:
        return f"the server asks for a wait of {human(delay)}, above hint_cap of {human(policy.hint_cap)}"
    return {
        StopReason.BUDGET: "the budget for retries is empty",
        StopReason.BREAKER: f"the breaker refuses further calls{_after(delay)}",
        StopReason.GATE: f"the gate admits fewer calls for now{_after(delay)}",
        StopReason.PERMANENT: f"not worth a retry ({why}{_REMEDY if why in UNDECIDED else ''})",
        StopReason.NEUTRAL: f"not a failure of what was called ({why})",
        StopReason.UNSAFE: f"the effect may have happened and repeating it is not safe ({why})",
        StopReason.SHUTDOWN: "the process is shutting down",
        StopReason.REJECTED: "the result is still one that reject= refuses",
        StopReason.UNREPLAYABLE: "what it was given can be used only once, and was begun",
    }.get(reason, str(reason))


def _after(delay: float) -> str:
    return f" for {human(delay)}" if delay else ""


def _drop_ours(notes: list[Any]) -> None:
    notes[:] = [one for one in notes if not str(one).startswith(PREFIX)]
