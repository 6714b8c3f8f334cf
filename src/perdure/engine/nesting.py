"""Nested retries do not multiply: what an inner call gave up on, an outer call that encloses it does not repeat.

An inner call that ends because it had enough (attempts, deadline, budget, hint) leaves a mark on the error. The
mark names the guarded calls that were going on around it, each by its token: the float object that holds its
start, which is that call's alone while the call lives.

A call in another task or thread cannot see what is around it there. Then its mark counts when it was made during
the outer call's attempt, and the error came over without being raised anew, as an exception object that several
functions share would be.
"""

from __future__ import annotations

import sys

from perdure import clock
from perdure.engine import ambient, frames
from perdure.engine.responses import KEY
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from perdure.engine.run import Run
    from perdure.engine.trail import Trail

    Token = object

ENOUGH = {
    StopReason.ATTEMPTS,
    StopReason.DEADLINE,
    StopReason.BUDGET,
    StopReason.HINT,
    StopReason.REJECTED,
}
"""Where a call stopped for one of these, the error has been retried enough for outer calls too."""

made: int = 0
"""How many trails were made in this process: an order that is there even where the clock stands still."""

RELAYS = {"concurrent", "asyncio", "trio", "outcome", "anyio", "perdure"}
"""What raises in one task or thread the error of another."""


def around() -> tuple[Token, ...]:
    """The tokens of the guarded calls on this stack, and of the blocks around, innermost first."""
    from perdure.engine.run import Run

    found: list[Token] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frames.is_guarded(frame):
            run, token = frames.peek_run(frame)
            if isinstance(run, Run):
                token = run.start
            # A policy without a deadline has no start before its first failure: there, the frame's id.
            found.append(id(frame) if token is None else token)
        frame = frame.f_back
    block = ambient.BLOCK.get()
    while block is not None:
        found.append(block._run.start)
        block = block._around
    return tuple(found)


def enclosed(error: BaseException, run: Run) -> Trail | None:
    """The mark of an inner call, made within this one, on the error or on what caused it."""
    for one, trail in _marked(error):
        if _is_around(trail, error, run):
            return trail
        if is_fresh(trail, run) and not _raised_anew(one, trail):
            return trail
    return None


def is_fresh(trail: Trail, run: Run) -> bool:
    """Whether the trail was made during the attempt of this run that has just failed."""
    if run.made is not None:
        return trail.serial > run.made
    # The first attempt of a fused call noted its start only, and none where there is no deadline.
    return run.began is not None and trail.at >= run.began


def _is_around(trail: Trail, error: BaseException, run: Run) -> bool:
    if run.start is not None and any(token is run.start for token in trail.around):
        return True
    trace = error.__traceback__
    return run.began is None and trace is not None and id(trace.tb_frame) in trail.around


def _marked(error: BaseException) -> Iterator[tuple[BaseException, Trail]]:
    """Marks on the error, its response, its causes and the members of groups, with what bears them; bounded."""
    from perdure.engine.trail import trail_of

    todo, seen = [error], 0
    while todo and seen < 32:
        one = todo.pop()
        seen += 1
        for trail in (trail_of(one), _of_response(one)):
            if trail is not None and trail.marked and trail.epoch == clock.epoch:
                yield one, trail
        if one.__cause__ is not None:
            todo.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            members: tuple[BaseException, ...] = one.exceptions  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # of any kind
            todo.extend(members)


def _of_response(error: BaseException) -> Trail | None:
    """The mark on the response that an error carries: its transport gave up, and raise_for_status raised it."""
    from perdure.engine.trail import Trail, dict_of

    try:
        trail = vars(dict_of(error).get("response")).get(KEY)
    except TypeError:  # no response, or one without a dict
        return None
    return trail if isinstance(trail, Trail) else None


def _raised_anew(error: BaseException, trail: Trail) -> bool:
    """Whether the error was raised with its object again since the inner call let it go.

    Else the entries that the inner call saw still stand at the end of the traceback, and none above them is a
    raise of its object, but for those of relays between tasks.
    """
    from opcode import opmap

    trace = error.__traceback__
    left = length_of(trace)
    while trace is not None:
        if left == trail.length:
            return id(trace) != trail.tail
        frame, below = trace.tb_frame, trace.tb_next
        code, at = frame.f_code.co_code, trace.tb_lasti
        is_raise = code[at] == opmap["RAISE_VARARGS"] and code[at + 1] > 0
        # "except E as error: raise error" stands there twice: where it raised, above where it called.
        again = below is not None and below.tb_frame is frame
        if is_raise and not again and str(frame.f_globals.get("__name__")).partition(".")[0] not in RELAYS:
            return True
        trace, left = below, left - 1
    return True


def count_trail() -> int:
    """The number of a new trail."""
    global made  # noqa: PLW0603 - two threads may share a number, which only makes both look fresh
    made += 1
    return made


def length_of(trace: TracebackType | None) -> int:
    """How many entries a traceback has from here on."""
    length = 0
    while trace is not None:
        trace, length = trace.tb_next, length + 1
    return length
