"""Hedged attempts in async code: the copies are tasks, the first success wins, the rest is cancelled."""

from __future__ import annotations

from types import NoneType

from perdure import clock
from perdure.colour import is_awaitable
from perdure.engine import aio, ambient, copies, responses, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

    import trio

    from perdure.engine.attempts import Passage
    from perdure.engine.guarded import GuardedRun


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
                for one in done:
                    if _passes(one):
                        return self._lost(one)
                for one in done:
                    if one.exception() is None:
                        return self._won(one, is_copy=one is not first)
                if not done and launched >= 0:
                    launched += 1
                    passage = copies.launch(run, launched)
                    if passage is None:
                        launched = -1  # no more copies
                    else:
                        going.add(self._start(passage))
            return self._lost(first)
        except GeneratorExit:
            self._let_go()
            raise
        finally:
            await self._clear()
            first = one = done = going = None  # type: ignore[assignment] # they hold the error that holds this frame

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

    def _lost(self, chosen: asyncio.Task[Any]) -> Any:
        self.call.passage = self.passages.pop(chosen, None)
        try:
            return chosen.result()  # raises what it raised
        finally:
            del chosen  # it holds the error, whose traceback holds this frame

    async def _clear(self) -> None:
        """Cancel and await what still runs, and report it; nothing of an attempt outlives it."""
        import asyncio

        still = [task for task in self.passages if not task.done()]
        for task in still:
            task.cancel()
        try:
            if still:
                await asyncio.wait(still)
        finally:
            passages, self.passages = self.passages, {}
            for task, passage in passages.items():
                self._report(task, passage, is_over=task not in still)
            for task in passages:
                if task.done() and not task.cancelled():
                    await responses.adrop(task.exception() or task.result())

    def _let_go(self) -> None:
        """Cancel what still runs without waiting for it: while a GeneratorExit passes, nothing may be awaited."""
        passages, self.passages = self.passages, {}
        for task, passage in passages.items():
            is_over = task.done()
            try:
                task.cancel()
            except RuntimeError:  # its loop is closed: it never ends
                copies.settle(self.call, passage, None, is_over=False)
            else:
                self._report(task, passage, is_over=is_over)

    def _report(self, task: asyncio.Task[Any], passage: Passage, *, is_over: bool) -> None:
        """Report a copy that decided nothing; one that outlives a second cancellation, once it ends."""
        if not task.done():
            task.add_done_callback(lambda done: self._report(done, passage, is_over=False))
            return
        error = None if task.cancelled() else task.exception()
        copies.settle(self.call, passage, error, is_over=is_over and not task.cancelled())


def _passes(task: asyncio.Task[Any]) -> bool:
    """Whether a copy ended with what is nobody's failure and goes through at once: a cancellation, an exit."""
    return task.cancelled() or not isinstance(task.exception(), (Exception, NoneType))


class _TrioRace:
    """The copies of one attempt on trio."""

    def __init__(self, run: GuardedRun) -> None:
        self.call = run
        self.results: list[tuple[Passage | None, Any, Exception | None]] = []
        self.bell: trio.Event | None = None

    async def run(self, delay: float) -> Any:
        """Race them, as on asyncio."""
        main, self.call.passage = self.call.passage, None
        passing: BaseException | None = None
        try:
            try:
                await self._race(main, delay)
            except BaseExceptionGroup as group:
                if len(group.exceptions) != 1:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # of any kind
                    raise
                passing = group.exceptions[0]  # pyright: ignore[reportUnknownMemberType] # of any kind
            if passing is not None:
                raise passing
            return self._decide(main)
        finally:
            lost = [value if error is None else error for _, value, error in self.results]
            self._settle()
            for one in lost:
                await responses.adrop(one)
            passing = one = lost = None  # type: ignore[assignment] # they hold this frame

    async def _race(self, main: Passage | None, delay: float) -> None:
        """Send the copies and wait until there is a success, or all have failed."""
        import trio

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, main, nursery)
            launched = 0
            while launched >= 0 and nursery.child_tasks and not self._has_winner():
                if not await self._is_over(delay):
                    launched += 1
                    passage = copies.launch(self.call, launched)
                    if passage is None:
                        launched = -1
                    else:
                        nursery.start_soon(self._copy, passage, nursery)

    async def _is_over(self, delay: float) -> bool:
        """Wait until a copy should be sent; True: something ended before."""
        import trio

        before = len(self.results)
        end = clock.monotonic() + delay
        while clock.monotonic() < end and len(self.results) == before:
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
            self.results.append((passage, None, error))
            if len(nursery.child_tasks) <= 1:
                nursery.cancel_scope.cancel()
        except BaseException:
            if passage is not None:
                copies.settle(self.call, passage, None, is_over=False)
            raise
        else:
            self.results.append((passage, value, None))
            nursery.cancel_scope.cancel()
        finally:
            if self.bell is not None:
                self.bell.set()

    def _has_winner(self) -> bool:
        return any(error is None for _, _, error in self.results)

    def _decide(self, main: Passage | None) -> Any:
        """The value of the first success, or else the error of the first copy."""
        won = next((one for one in self.results if one[2] is None), None)
        chosen = won or next((one for one in self.results if one[0] is main), self.results[0])
        self.results.remove(chosen)
        passage, value, error = chosen
        if error is None and passage is not None and passage is not main:
            copies.won(self.call, passage)
        else:
            self.call.passage = passage
        if error is None:
            return value
        try:
            raise error
        finally:
            del error, won, chosen  # they hold the error, whose traceback holds this frame

    def _settle(self) -> None:
        """Report the copies that ended and decided nothing."""
        results, self.results = self.results, []
        for passage, _, error in results:
            if passage is not None:
                copies.settle(self.call, passage, error, is_over=True)
