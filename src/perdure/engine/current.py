"""``perdure.current()``: which guarded call is running here.

The success path publishes nothing, so this looks at the stack: the nearest frame of a wrapper, driver or
entered block says which call it is. A slow look, for the few who ask.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from perdure.engine import ambient, frames
from perdure.engine.fused import Site
from perdure.engine.naming import named, operation
from perdure.engine.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Current", "current"]


@dataclass(frozen=True, slots=True)
class Current:
    """The guarded call that surrounds some code.

    ``attempt`` is the number of the running attempt (from 1), ``attempts`` how many may be made (None:
    unbounded), ``operation`` the name in logs, ``dependency`` and ``key`` what is called (None for a bare
    Retry), ``call_id`` the id in logs and events (empty while nothing has failed and nobody listens).
    Immutable.
    """

    attempt: int
    attempts: int | None
    operation: str
    dependency: str | None = None
    key: str | None = None
    call_id: str = ""


def current() -> Current | None:
    """The innermost guarded call around this code, or None outside of one.

    It is found on the stack of the running thread or task; a task or thread that was started inside an attempt
    sees only the blocks (``with attempt:``) around its start. Safe from any thread or task.
    """
    block = ambient.BLOCK.get()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if block is not None and id(frame) == block._frame and not block._left:
            return _of_run(block._run)
        if frames.is_guarded(frame):
            found = _of_frame(frame)
            if found is not None:
                return found
        frame = frame.f_back
    # Not on this stack: a block of the task or thread that started this one, or a suspended generator's.
    if block is None or block._left or block._where == frames.whereabouts():
        return None
    return _of_run(block._run)


def _of_frame(frame: FrameType) -> Current | None:
    run, _ = frames.peek_run(frame)
    if isinstance(run, Site):  # as the wrapper would make it at its first failure
        if run.guard is not None:
            return Current(1, run.policy.attempts, operation(run), *_names(run))
        run = Run(run.policy, run.fn, (), {}, None, 1)
    return _of_run(run) if isinstance(run, Run) else None


def _of_run(run: Run) -> Current:
    return Current(run.number, run.allowed, operation(run), *named(run), call_id=run.call_id)


def _names(site: Site) -> tuple[str, str | None]:
    return site.guard.core.name, None if site.state is None else site.state.text
