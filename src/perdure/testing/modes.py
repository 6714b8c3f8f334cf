"""Switches for the code under test: single attempts, no waits, recorded events, a clean slate."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import wraps

from perdure import events, faults
from perdure.colour import ASYNC, SYNC, colour
from perdure.engine import ambient, logs, run, shutdown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType
    from typing import Any, TypeVar

    from perdure.events import Event

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Switch", "disabled", "no_waits", "record_events", "reset"]


class Switch:
    """A mode for a block (``with disabled(): ...``) or for each call of a function (``@disabled()``).

    It holds for this context: other tasks and threads are not affected, tasks started in the block are. One
    object can be entered again and again, also within itself.
    """

    def __init__(self, *, disabled: bool = False, skip: bool = False) -> None:
        self._disabled = disabled
        self._skip = skip

    def __enter__(self) -> list[float]:
        around = ambient.mode()
        before = around or ambient.Mode()
        waits: list[float] = []
        mode = ambient.Mode(
            single=self._disabled or before.single,
            disabled=self._disabled or before.disabled,
            waits=waits if self._skip else before.waits,
        )
        mode.around, mode.owner = around, self
        ambient.MODE.set(mode)
        return waits

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mode = ambient.MODE.get()
        while mode is not None and (mode.owner is not self or not mode.open):
            mode = mode.around
        if mode is not None:  # closed, so that a task that outlives the block leaves the mode as well
            mode.open = False
        ambient.MODE.set(ambient.mode())

    def __call__(self, fn: F) -> F:
        """Have each call of a sync or async function run in this mode; raises ConfigError for generators."""
        kind: str = colour(fn)
        if kind not in {ASYNC, SYNC}:
            from perdure.errors import ConfigError

            raise ConfigError(f"a mode decorates a sync or async function, not a generator, got {fn!r}")

        @wraps(fn)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return fn(*args, **kwargs)

        @wraps(fn)
        async def aswitched(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return await fn(*args, **kwargs)

        return aswitched if kind == ASYNC else switched  # type: ignore[return-value] # it has fn's parameters

    def _fresh(self) -> Switch:
        return Switch(disabled=self._disabled, skip=self._skip)


def disabled() -> Switch:
    """Make every guarded call in the block a single attempt; also as a decorator.

    Errors come out at once and unchanged but for the note. It holds for this context: other tasks and threads
    are not affected, tasks started in the block are. For a whole process, set ``PERDURE_DISABLED=1``.
    """
    return Switch(disabled=True)


def no_waits() -> Switch:
    """Skip all waits in the block; the list it gives holds them, in seconds and in order. Also as a decorator.

    Time does not pass for deadlines; use ``VirtualClock`` where it should. It holds for this context: other
    tasks and threads are not affected, tasks started in the block are.
    """
    return Switch(skip=True)


@contextmanager
def record_events() -> Generator[list[Event]]:
    """Collect every event while the block runs, of all threads and tasks."""
    seen: list[Event] = []
    stop = events.listen(seen.append)
    try:
        yield seen
    finally:
        stop()


def reset() -> None:
    """Forget all that perdure knows in this process: listeners, registered faults, a shutdown, log limits.

    Dependencies stay declared and begin anew: breakers closed, budgets full, counters at 0. Policies are values and
    stay as they are. Call it between tests, not while guarded calls run.
    """
    events.clear()
    faults.reset()
    logs.forget()
    shutdown.reopen(force=True)
    run.disabled_by_environment = run.read_environment()
    for name in ("registry", "headers"):
        module = sys.modules.get(f"perdure.{name}")
        if module is not None:
            module.reset()
