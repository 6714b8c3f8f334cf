"""Guarded calls that are under way, as seen in the stacks of threads and the coroutines of tasks.

Nothing counts them: a counter would cost every successful call more than all the rest of the wrapper.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from perdure import bypass
from perdure.engine import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType
    from typing import Any

DRIVERS: set[int] = set()
"""The ids of the code of functions that have a guarded call below them: hashing a code object is slow."""

BLOCKS: dict[int, tuple[int, object]] = {}
"""The block attempts that are entered, by id: their thread and task. No frame of ours stands below a block."""


def drives(function: Callable[..., object]) -> None:
    """Say that this function of ours has a guarded call below it, and the call's Run in its local ``run``."""
    code: CodeType = function.__code__
    DRIVERS.add(id(code))


def peek_run(frame: FrameType) -> tuple[object, object]:
    """The Run of a guarded frame, or what its wrapper noted as the start, or its site.

    Before 3.13 a look at the locals leaves a copy of them in the frame, which would hold what they hold.
    """
    names = frame.f_locals
    run, start = names.get("run") or names.get("_run") or names.get("_site"), names.get("_start")
    if type(names) is dict:
        names.clear()
    return run, start


def states_here() -> list[object]:
    """The states of the dependencies that the calls on this stack have an attempt with."""
    found: list[object] = []
    runs: set[int] = set()  # each has several frames
    below: FrameType | None = None  # what the frame has called
    for frame in _stack(sys._getframe()):
        own = below is not None and below.f_globals.get("__name__") in _TAKING_OVER
        if frame.f_code.co_filename == bypass.WRAPPER_FILE and "_lease" in frame.f_locals:
            if not own:  # else whoever took over from the wrapper says whether there is an attempt
                found.append(frame.f_locals.get("_state"))
        elif id(frame.f_code) in DRIVERS:
            run: Any = frame.f_locals.get("run")
            if run is None and not own and "lease" in frame.f_locals:  # does what a wrapper does
                found.append(getattr(frame.f_locals.get("_site"), "state", None))
            elif getattr(run, "passage", None) is not None and id(run) not in runs:
                runs.add(id(run))
                found.append(run.state)  # pyright: ignore[reportOptionalMemberAccess] # None has no passage
        below = frame
    return found


_TAKING_OVER = {"perdure.engine.dependent", "perdure.engine.sync", "perdure.engine.aio"}


def is_guarded(frame: FrameType) -> bool:
    """Whether this frame is one of ours with a guarded call below it."""
    code = frame.f_code
    return id(code) in DRIVERS or code.co_filename == bypass.WRAPPER_FILE


def in_flight() -> bool:
    """Whether a guarded call runs outside this thread's own stack and this task."""
    here = get_ident()
    mine = {id(one) for one in _stack(sys._getframe())}
    stacks = sys._current_frames()
    if any(is_guarded(frame) for thread, top in stacks.items() if thread != here for frame in _stack(top)):
        return True
    if any(where != whereabouts() for where in tuple(BLOCKS.values())):
        return True
    if waiting.maybe_loop() is None and not waiting.in_trio():
        del stacks[here]  # a loop below here has stopped, or is that of a process that this was forked from
    suspended = (frame for task in _tasks(stacks.values()) for frame in _coroutine_frames(task))
    return any(is_guarded(frame) and id(frame) not in mine for frame in suspended)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def whereabouts() -> tuple[int, object]:
    """The thread and task that this is."""
    return get_ident(), waiting.current_task()


def _tasks(tops: Iterable[FrameType]) -> Iterator[Any]:
    """The coroutines of all tasks of all asyncio and trio loops that run in some thread, or have waited here."""
    loops = set(waiting.known_loops())
    for top in tops:
        for frame in _stack(top):
            if frame.f_code.co_name == "run_forever" and "self" in frame.f_locals:
                loops.add(frame.f_locals["self"])
            elif frame.f_globals.get("__name__") == "trio._core._run" and "runner" in frame.f_locals:
                yield from (task.coro for task in tuple(frame.f_locals["runner"].tasks))
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        for loop in loops:
            yield from (task.get_coro() for task in asyncio.all_tasks(loop))


def _coroutine_frames(awaited: Any) -> list[FrameType]:
    """The frames that a suspended coroutine stands in, down to what it waits for."""
    frames: list[FrameType] = []
    while awaited is not None and len(frames) < 1000:
        frame = next(
            (f for name in ("cr_frame", "gi_frame", "ag_frame") if (f := getattr(awaited, name, None))), None
        )
        if frame is not None:
            frames.append(frame)
        awaited = _awaited_by(awaited)
    return frames


def _awaited_by(suspended: Any) -> Any:
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        if hasattr(suspended, name):
            return getattr(suspended, name)
    # The awaitable of asend(), and that of a coroutine's __await__, do not name what they drive.
    if type(suspended).__name__.startswith(("async_generator_", "coroutine_wrapper")):
        import gc

        return next((one for one in gc.get_referents(suspended) if _is_driven(one)), None)
    return None


def _is_driven(one: object) -> bool:
    return hasattr(one, "ag_frame") or hasattr(one, "cr_frame")


def _begin_anew() -> None:
    """The child has none of the other threads."""
    for block, where in tuple(BLOCKS.items()):
        if where[0] != get_ident():
            del BLOCKS[block]


bypass.after_fork(_begin_anew)
