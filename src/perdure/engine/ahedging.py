"""Hedged attempts in async code: the copies are tasks, the first success wins, the rest is cancelled."""

from __future__ import annotations

from perdure import clock
from perdure.colour import is_awaitable
from perdure.engine import aio, ambient, copies, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

    from perdure.engine.guarded import GuardedRun
    from perdure.engine.state import Passage


async def attempt(run: GuardedRun) -> Any:
    """One attempt, with copies of it where it takes long."""
    delay = copies.delay(run)
    if delay is None:
        return await _once(run)
    race = _TrioRace(run) if waiting.in_trio() else _Race(run)
    return await race.run(delay)


async def _once(run: GuardedRun) -> Any:
    if run.policy.is_plain and ambient.ENDS.get() is None:
        value = run.fn(*run.args, **run.kwargs)
        return await value if is_awaitable(value) else value
    return await aio.within_limit(run)


class _Race:
    """The copies of one attempt on asyncio."""

    def __init__(self, run: GuardedRun) -> None:
        self.call = run
        self.passages: dict[Any, Passage] = {}

    async def run(self, delay: float) -> Any:
        """Race them; the value of the first success, or else the error of the first."""
        import asyncio

        run = self.call
        first = self._start(run.passage)
        run.passage = None  # each copy has its own now
        going: set[asyncio.Task[Any]] = {first}
        launched = 0
        try:
            while going:
                limit = delay if launched >= 0 else None
                done, going = await asyncio.wait(going, timeout=limit, return_when="FIRST_COMPLETED")
                winner = next((one for one in done if not one.cancelled() and one.exception() is None), None)
                if winner is not None:
                    return self._won(winner, is_copy=winner is not first)
                if done and launched <= 0 and not going:
                    break
                if not done and launched >= 0:
                    launched += 1
                    passage = copies.launch(run, launched)
                    if passage is None:
                        launched = -1  # no more copies
                    else:
                        going.add(self._start(passage))
            return self._lost(first)
        finally:
            await self._clear()

    def _start(self, passage: Passage | None) -> asyncio.Task[Any]:
        import asyncio

        task = asyncio.ensure_future(_once(self.call))
        if passage is not None:
            self.passages[task] = passage
        return task

    def _won(self, winner: asyncio.Task[Any], *, is_copy: bool) -> Any:
        passage = self.passages.pop(winner, None)
        if passage is not None:
            if is_copy:
                copies.won(self.call, passage)
            else:
                self.call.passage = passage
        return winner.result()

    def _lost(self, first: asyncio.Task[Any]) -> Any:
        self.call.passage = self.passages.pop(first, None)
        return first.result()  # raises what it raised

    async def _clear(self) -> None:
        """Cancel and await what still runs, and report it; nothing of an attempt outlives it."""
        import asyncio

        still = [task for task in self.passages if not task.done()]
        for task in still:
            task.cancel()
        if still:
            await asyncio.wait(still)
        for task, passage in self.passages.items():
            cancelled = task.cancelled()
            error = None if cancelled else task.exception()
            copies.settle(self.call, passage, error, is_over=task not in still and not cancelled)


class _TrioRace:
    """The copies of one attempt on trio."""

    def __init__(self, run: GuardedRun) -> None:
        self.call = run
        self.results: list[tuple[Passage | None, Any, BaseException | None, bool]] = []

    async def run(self, delay: float) -> Any:
        """Race them, as on asyncio."""
        import trio

        run, main = self.call, self.call.passage
        run.passage = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._copy, main, nursery)
                launched = 0
                while nursery.child_tasks and not self._has_winner():
                    if launched >= 0 and not await self._is_over(delay):
                        launched += 1
                        passage = copies.launch(run, launched)
                        if passage is None:
                            launched = -1
                        else:
                            nursery.start_soon(self._copy, passage, nursery)
                    elif launched < 0:
                        break
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # of any kind
                raise group.exceptions[0] from None  # pyright: ignore[reportUnknownMemberType] # of any kind
            raise
        return self._decide(main)

    async def _is_over(self, delay: float) -> bool:
        """Wait until a copy should be sent; True: something ended before."""
        before = len(self.results)
        end = clock.monotonic() + delay
        while clock.monotonic() < end and len(self.results) == before:
            import trio

            self.bell = trio.Event()
            if clock.virtual is None:
                with trio.move_on_after(end - clock.monotonic()):
                    await self.bell.wait()
            else:
                timer = clock.virtual.call_later(end - clock.monotonic(), self.bell.set)
                try:
                    await self.bell.wait()
                finally:
                    timer.cancel()
        return len(self.results) > before

    async def _copy(self, passage: Passage | None, nursery: Any) -> None:
        try:
            value = await _once(self.call)
        except Exception as error:  # noqa: BLE001 - it is one of several results
            self.results.append((passage, None, error, True))
            if len(nursery.child_tasks) <= 1:
                nursery.cancel_scope.cancel()
        except BaseException:
            if passage is not None:
                copies.settle(self.call, passage, None, is_over=False)
            raise
        else:
            self.results.append((passage, value, None, True))
            nursery.cancel_scope.cancel()
        finally:
            bell = getattr(self, "bell", None)
            if bell is not None:
                bell.set()

    def _has_winner(self) -> bool:
        return any(error is None for _, _, error, _ in self.results)

    def _decide(self, main: Passage | None) -> Any:
        winner = next((one for one in self.results if one[2] is None), None)
        chosen = winner or next((one for one in self.results if one[0] is main), self.results[0])
        for one in self.results:
            if one is not chosen and one[0] is not None:
                copies.settle(self.call, one[0], one[2], is_over=True)
        passage, value, error, _ = chosen
        if error is not None:
            self.call.passage = passage
            raise error
        if passage is not None and passage is not main:
            copies.won(self.call, passage)
        else:
            self.call.passage = passage
        return value
