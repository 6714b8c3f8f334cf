"""``perdure.carry``: hand the ends and modes that hold here over to other threads and executors.

Ends and modes are context variables. Tasks, ``asyncio.to_thread`` and ``trio.to_thread.run_sync`` copy the
context by themselves; a new thread and an executor's worker start without it.

A sync function is run in the copy as a whole. A coroutine is run in it step by step, in the task that awaits it,
so that cancellation and what looks down the chain of awaits (``perdure.close`` does) find it as ever.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import WRAPPER_ASSIGNMENTS, wraps
from types import CoroutineType

from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, colour, discard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator
    from contextvars import Context
    from typing import Any, Self, TypeGuard, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["carry"]


def carry(fn: F) -> F:
    """Have ``fn`` see the ends of this moment in whatever thread it runs: ``executor.submit(carry(work), 1)``.

    Gives a function of the same colour that runs ``fn`` in a copy of the context in which ``carry`` was called,
    with all its context variables. It may run often and in several threads at once; each call has a copy of its
    own, and what it sets there stays there. The ends hold while their blocks are open, and no longer.

    In another thread nothing interrupts a sync function: guarded calls in it begin no attempt and no wait past
    the end. Guarded async functions are cut at the end, on whichever loop they run. A coroutine that a sync
    ``fn`` returns keeps the copy; a generator that it returns does not.

    Raises ConfigError for what is no callable, and for generator functions, which run where they are iterated.
    Callable from any thread or task.
    """
    kind = _colour(fn)
    around = copy_context()

    def carried(*args: Any, **kwargs: Any) -> Any:
        context = around.copy()  # a context is entered once at a time
        value: object = context.run(fn, *args, **kwargs)
        return _go_on(_Steps(context, value)) if _is_coroutine(value) else value

    async def acarried(*args: Any, **kwargs: Any) -> Any:
        context = around.copy()
        return await _Steps(context, context.run(_begin, fn, args, kwargs))

    # Not the attributes that fn was given: a guarded function has methods there, which would not be carried.
    given = wraps(fn, assigned=WRAPPER_ASSIGNMENTS, updated=())
    return given(acarried if kind == ASYNC else carried)  # type: ignore[return-value] # it has fn's parameters


class _Steps:
    """An awaitable that runs each step of a coroutine in a context; has what ``await`` asks of an iterator."""

    __slots__ = ("_context", "cr_await")

    def __init__(self, context: Context, steps: Coroutine[Any, Any, Any]) -> None:
        self._context = context
        self.cr_await = steps  # the name by which the chain of awaits is followed

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # type: ignore[return-value] # as good as one

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        return self._context.run(self.cr_await.send, None)

    def send(self, value: object) -> object:
        """Go on with what was awaited."""
        return self._context.run(self.cr_await.send, value)

    def throw(self, kind: Any, error: BaseException | None = None, _trace: object = None) -> object:
        """Go on with an error, which ``await`` passes in one argument or in the old way in three."""
        try:
            return self._context.run(self.cr_await.throw, kind if error is None else error)
        finally:
            del kind, error  # this frame stands in the error's traceback

    def close(self) -> None:
        """End the coroutine where it stands."""
        self._context.run(self.cr_await.close)


async def _go_on(steps: _Steps) -> Any:
    """Make a coroutine of the steps of one: loops take nothing else."""
    return await steps


def _begin(
    fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Coroutine[Any, Any, Any]:
    value = fn(*args, **kwargs)
    return value if _is_coroutine(value) else _await(value)


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _is_coroutine(value: object) -> TypeGuard[Coroutine[Any, Any, Any]]:
    return type(value) is CoroutineType


def _colour(fn: object) -> str:
    from perdure.errors import ConfigError

    if not callable(fn):
        discard(fn)
        raise ConfigError(
            f"fn must be a callable; give the function, not the result of calling it, got {fn!r}"
        )
    kind: str = colour(fn)
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        raise ConfigError(
            f"fn must be a sync or async function; carry the one that iterates the generator, got {fn!r}"
        )
    return kind
