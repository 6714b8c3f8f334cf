"""Retried generators, sync and async: started again until their first item was delivered, never after.

The wrapper itself is generated, see ``perdure.engine.templates``; here is what it does before the first item.
"""

from __future__ import annotations

from perdure.engine import aio, frames, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from typing import Any

    from perdure.engine.fused import Site


def begin(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Primed:
    """A generator of ``site`` that has its first item, as ``yield from`` takes it."""
    run = site.new_run(args, kwargs)
    run.begin()
    while True:
        sync.prepare(run)
        try:
            primed: Primed = sync.special(run, _first, site, args, kwargs)
        except BaseException as error:
            if not run.failure(error):
                raise
        else:
            run.succeed()
            return primed


def _first(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Primed:
    items = site.fn(*args, **kwargs)
    try:
        return Primed(items, next(items))
    except StopIteration as end:
        return Primed.empty(end.value)


async def abegin(
    site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[AsyncGenerator[Any, Any], Any] | None:
    """An async generator of ``site`` and its first item; None where it ends without one.

    An attempt timeout bounds the wait for the first item.
    """
    run = site.new_run(args, kwargs)
    run.begin()
    while True:
        await aio.prepare(run)
        items: AsyncGenerator[Any, Any] = site.fn(*args, **kwargs)
        try:
            item = await aio.within_limit(run, items.__anext__)
        except StopAsyncIteration:
            run.succeed()
            return None
        except BaseException as error:
            if not isinstance(error, GeneratorExit):  # while that passes, nothing may be awaited
                await items.aclose()
            if not run.failure(error):
                raise
        else:
            run.succeed()
            return items, item


class Primed:
    """A generator whose first item was taken already, as ``yield from`` sees it."""

    __slots__ = ("_first", "_items", "_primed", "_value")

    def __init__(self, items: Generator[Any, Any, Any] | None, first: Any) -> None:
        self._items = items
        self._first = first
        self._primed = True
        self._value: Any = None

    @classmethod
    def empty(cls, value: Any) -> Primed:
        """One that ends at once with this return value."""
        primed = cls(None, None)
        primed._value = value
        return primed

    def __iter__(self) -> Primed:
        return self

    def __next__(self) -> Any:
        if self._items is None:
            raise StopIteration(self._value)
        if self._primed:
            self._primed = False
            first, self._first = self._first, None
            return first
        return next(self._items)

    def send(self, value: Any) -> Any:
        """Send into the generator."""
        return self._running().send(value)

    def throw(self, *error: Any) -> Any:
        """Throw into the generator."""
        return self._running().throw(*error)

    def close(self) -> None:
        """Close the generator."""
        if self._items is not None:
            self._items.close()

    def _running(self) -> Generator[Any, Any, Any]:
        if self._items is None:  # pragma: no cover - an empty one ends before anything is sent
            raise StopIteration(self._value)
        return self._items


frames.drives(begin)
frames.drives(abegin)
