"""``perdure.carry``: threads and executors see the ends and modes of whoever handed them the work."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Retry, time_left
from perdure.engine import frames, handover, waiting
from perdure.engine.handover import carry
from perdure.testing import Script, VirtualClock, disabled, no_waits, took
from tests.engine.tasks import LOOPS, cancelled_after, forever, together, turn
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
POLICY = Retry(backoff=perdure.Constant(1))
PATIENCE = 10.0  # seconds until a thread counts as stuck; none takes so long
COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def in_a_thread(work: Callable[[], Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return seen[0]


def in_an_executor(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE)


def in_a_loops_executor(work: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    return contextvars.Context().run(asyncio.run, main())


PLACES = {"thread": in_a_thread, "executor": in_an_executor, "loop": in_a_loops_executor}


# -- what is handed over -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
class TestThreads:
    def test_they_see_the_end_when_it_is_carried_and_only_then(self, clock: VirtualClock, place: str) -> None:
        with perdure.deadline(5):
            assert PLACES[place](time_left) is None
            assert PLACES[place](carry(time_left)) == 5
        assert clock.now == 0

    def test_none_is_left_when_the_block_was_left_before_the_work_began(
        self, clock: VirtualClock, place: str
    ) -> None:
        with perdure.deadline(9):
            with perdure.deadline(5):
                carried = carry(time_left)
            assert PLACES[place](carried) == 9
        assert PLACES[place](carried) is None
        assert clock.now == 0

    def test_the_nearest_of_nested_ends_holds_there_too(self, clock: VirtualClock, place: str) -> None:
        def work() -> list[float | None]:
            with perdure.deadline(2):
                inner = time_left()
            with perdure.no_deadline():
                return [inner, time_left()]

        with perdure.deadline(9), perdure.deadline(5):
            assert PLACES[place](carry(work)) == [2, None]
        assert clock.now == 0

    def test_no_wait_crosses_the_end(self, clock: VirtualClock, place: str) -> None:
        script = Script(took(0.5, ConnectionError("first")), "late")
        with perdure.deadline(1.25), pytest.raises(ConnectionError, match="first"):
            PLACES[place](carry(outcome(script)))()
        assert (len(script.calls), clock.now) == (1, 0.5)

    def test_no_attempt_begins_after_the_end(self, clock: VirtualClock, place: str) -> None:
        script = Script("ok")
        with perdure.deadline(1), pytest.raises(perdure.DeadlineExceeded, match="had passed before the call"):
            clock.advance(1)
            PLACES[place](carry(outcome(script)))()
        assert not script.calls

    def test_a_sync_attempt_that_began_in_time_is_not_cut(self, clock: VirtualClock, place: str) -> None:
        with perdure.deadline(1):
            assert PLACES[place](carry(outcome(Script(took(9, "whole")))))() == "whole"
        assert clock.now == 9

    @pytest.mark.parametrize("loop", LOOPS)
    def test_a_guarded_async_function_on_a_loop_there_is_cut_at_the_end(
        self, clock: VirtualClock, place: str, loop: str
    ) -> None:
        last = ConnectionError("last")
        script = Script(last, took(100, "late"))
        with perdure.deadline(5), pytest.raises(perdure.DeadlineExceeded) as caught:
            PLACES[place](carry(outcome(lambda: run_async(loop, POLICY(script.asynchronous)))))()
        assert caught.value.__cause__ is last
        assert (len(script.calls), clock.now) == (2, 5)

    def test_modes_go_along(self, clock: VirtualClock, place: str) -> None:
        script = Script(ConnectionError(), ConnectionError(), "ok")
        with no_waits() as waits:
            assert PLACES[place](carry(outcome(script)))() == "ok"
        assert (waits, clock.now) == ([1, 1], 0)
        single = Script(ConnectionError("single"), "ok")
        with disabled():
            carried = carry(outcome(single))
            with pytest.raises(ConnectionError, match="single"):
                PLACES[place](carried)()
        single.calls.clear()
        assert PLACES[place](carry(outcome(single)))() == "ok", "the mode is over with its block"


def outcome(work: Callable[[], Any]) -> Callable[[], Callable[[], Any]]:
    """Guard and run work, and hand out what it came to: a bare thread would print what it raises."""

    def run() -> Callable[[], Any]:
        ended = POLICY.outcome(work)
        return ended.unwrap

    return run


def test_the_context_variables_of_the_program_go_along_and_what_is_set_there_stays_there() -> None:
    def work() -> list[str]:
        seen = [COLOUR.get()]
        COLOUR.set("blue")
        return [*seen, COLOUR.get()]

    token = COLOUR.set("red")
    carried = carry(work)
    COLOUR.reset(token)
    assert in_a_thread(carried) == ["red", "blue"]
    assert in_a_thread(carried) == ["red", "blue"], "each call has a copy of its own"
    assert COLOUR.get() == "none"


def test_the_moment_of_carry_counts_not_that_of_the_call(clock: VirtualClock) -> None:
    before = carry(time_left)
    with perdure.deadline(5):
        assert before() is None
        within = carry(time_left)
        clock.advance(2)
    with perdure.deadline(9):
        assert within() is None


def test_one_carried_function_runs_in_many_threads_at_the_same_time(clock: VirtualClock) -> None:
    """A context refuses to be entered twice: every call has its own copy."""
    meeting = threading.Barrier(4, timeout=PATIENCE)

    def work(number: int) -> tuple[int, float | None]:
        meeting.wait()
        return number, time_left()

    with perdure.deadline(5), ThreadPoolExecutor(4) as pool:
        assert list(pool.map(carry(work), range(4))) == [(number, 5) for number in range(4)]
    assert clock.now == 0


def test_it_may_run_within_itself(clock: VirtualClock) -> None:
    def down(depth: int) -> float | None:
        return carried(depth - 1) if depth else time_left()

    with perdure.deadline(5):
        carried = carry(down)
        assert carried(3) == 5
        assert carry(carried)(3) == 5
    assert clock.now == 0


def test_a_block_left_by_another_thread_ends_the_end_of_running_work(clock: VirtualClock) -> None:
    began, left = threading.Event(), threading.Event()

    def work() -> list[float | None]:
        seen = [time_left()]
        began.set()
        assert left.wait(PATIENCE)
        return [*seen, time_left()]

    with ThreadPoolExecutor(1) as pool:
        with perdure.deadline(5):
            future = pool.submit(carry(work))
            assert began.wait(PATIENCE)
        left.set()
        assert future.result(PATIENCE) == [5, None]
    assert clock.now == 0


def test_a_call_outside_knows_what_a_carried_call_gave_up_on() -> None:
    """3 x 3 gives 3 calls, also across a thread."""
    policy = Retry(attempts=3, backoff=perdure.Constant(0), on=ConnectionError)
    script = Script(*[ConnectionError()] * 9)

    def outer() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(carry(policy(script))).result(PATIENCE)

    with pytest.raises(ConnectionError):
        policy.call(outer)
    assert len(script.calls) == 3


# -- async functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestAsync:
    def test_a_carried_async_function_sees_the_end_at_every_step(
        self, loop: str, clock: VirtualClock
    ) -> None:
        async def work() -> list[float | None]:
            seen = [time_left()]
            await clock.asleep(2)
            return [*seen, time_left()]

        with perdure.deadline(5):
            carried = carry(work)
            assert in_a_thread(lambda: run_async(loop, carried)) == [5, 3]
        assert run_async(loop, carried) == [None, None]

    @pytest.mark.parametrize("form", ["decorated", "call", "block"])
    def test_a_guarded_call_in_it_is_cut_at_the_end(self, loop: str, clock: VirtualClock, form: str) -> None:
        last = ConnectionError("last")
        script = Script(last, took(100, "late"))

        async def block() -> None:
            async for attempt in POLICY:
                with attempt:
                    await script.asynchronous()

        forms: dict[str, Callable[[], Any]] = {
            "decorated": POLICY(script.asynchronous),
            "call": partial(POLICY.call, script.asynchronous),
            "block": block,
        }
        with perdure.deadline(5), pytest.raises(perdure.DeadlineExceeded) as caught:
            in_an_executor(partial(run_async, loop, carry(forms[form])))
        assert caught.value.__cause__ is last
        assert (len(script.calls), clock.now) == (2, 5)

    def test_cancellation_reaches_it_and_its_clean_up_still_sees_the_context(
        self, loop: str, clock: VirtualClock
    ) -> None:
        seen: list[float | None] = []

        async def work() -> None:
            try:
                await forever(loop)
            finally:
                seen.append(time_left())

        with perdure.deadline(5):
            carried = carry(work)
            contextvars.Context().run(run_async, loop, lambda: cancelled_after(loop, clock, 1, carried))
        assert (seen, clock.now) == ([4], 1)

    def test_many_run_at_the_same_time_in_one_loop(self, loop: str, clock: VirtualClock) -> None:
        async def work() -> float | None:
            await clock.asleep(1)
            return time_left()

        with perdure.deadline(5):
            carried = carry(work)
            main = partial(together, loop, carried, carried, carried)
            assert contextvars.Context().run(run_async, loop, main) == [4, 4, 4]
        assert clock.now == 1

    def test_each_call_has_a_context_of_its_own(self, loop: str) -> None:
        async def work() -> str:
            before = COLOUR.get()
            COLOUR.set("blue")
            await turn(loop)
            return f"{before}, {COLOUR.get()}"

        carried = carry(work)
        main = partial(together, loop, carried, carried)
        assert [run_async(loop, main), COLOUR.get()] == [["none, blue"] * 2, "none"]

    def test_in_the_task_that_opened_the_block_the_end_interrupts_all_of_it(
        self, loop: str, clock: VirtualClock
    ) -> None:
        async def main() -> None:
            with perdure.deadline(1):
                await carry(partial(forever, loop))()

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert clock.now == 1

    def test_to_thread_needs_no_carry(self, loop: str, clock: VirtualClock) -> None:
        script = Script(took(0.5, ConnectionError("first")), "late")

        async def main() -> Any:
            to_thread: Any = asyncio.to_thread if loop == "asyncio" else trio.to_thread.run_sync
            with perdure.deadline(1.25):
                assert await to_thread(time_left) == 1.25
                await to_thread(POLICY(script))

        with pytest.raises(ConnectionError, match="first"):
            run_async(loop, main)
        assert (len(script.calls), clock.now) == (1, 0.5)

    def test_tasks_started_in_the_block_need_no_carry(self, loop: str, clock: VirtualClock) -> None:
        async def work() -> float | None:
            return time_left()

        async def main() -> list[float | None]:
            with perdure.deadline(5):
                return await together(loop, work, work)

        assert run_async(loop, main) == [5, 5]
        assert clock.now == 0

    def test_closing_finds_the_guarded_call_in_it(self, loop: str, clock: VirtualClock) -> None:
        found: list[bool] = []

        async def watched() -> None:
            await clock.asleep(3)

        async def watcher() -> None:
            await clock.asleep(1)
            found.append(frames.in_flight())
            await clock.asleep(5)
            found.append(frames.in_flight())

        run_async(loop, partial(together, loop, carry(POLICY(watched)), watcher))
        assert found == [True, False]


class Work:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Generator[Any, Any, float | None]:
        yield from asyncio.sleep(1).__await__()
        return time_left()


class Front:
    """An object with the marks of an async function, as AsyncMock has them."""

    __code__ = SimpleNamespace(co_flags=inspect.CO_COROUTINE)

    def __call__(self) -> Work:
        self.called_with = time_left()
        return Work()


def test_an_awaitable_that_is_no_coroutine_is_awaited_in_the_context(clock: VirtualClock) -> None:
    carried = carry(Work)
    with perdure.deadline(5):
        assert isinstance(carried(), Work), "what a sync function returns is handed out as it is"
        front = Front()
        assert contextvars.Context().run(asyncio.run, carry(front)()) == 4
        assert front.called_with == 5, "the call that makes the awaitable is in the context too"
    assert clock.now == 1


def test_an_abandoned_coroutine_is_closed_and_not_left_hanging(clock: VirtualClock) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await waiting.YIELD
        finally:
            ended.append("closed")

    coroutine = carry(work)()
    coroutine.send(None)
    coroutine.close()
    assert ended == ["closed"]
    assert clock.now == 0


def test_an_error_thrown_in_the_old_way_arrives() -> None:
    async def work() -> str:
        try:
            await waiting.YIELD
        except KeyError as error:
            return str(error)
        return "nothing"

    for error in (KeyError("one"), KeyError):
        coroutine = carry(work)()
        coroutine.send(None)
        with pytest.raises(StopIteration) as caught:
            coroutine.throw(error)
        assert caught.value.value == ("'one'" if isinstance(error, KeyError) else "")
    steps = handover._Steps(contextvars.copy_context(), work())
    assert iter(steps) is steps
    next(steps)
    with pytest.raises(StopIteration) as caught:
        steps.throw(KeyError, KeyError("three"), None)
    assert caught.value.value == "'three'"


@pytest.mark.parametrize("colour", ["sync", "asyncio"])
def test_errors_pass_with_few_frames_of_ours_and_leave_no_garbage(colour: str) -> None:
    def fail() -> None:
        raise KeyError("mine")

    async def afail() -> None:
        await asyncio.sleep(0)
        fail()

    async def cancelled() -> None:
        task = asyncio.ensure_future(carry(asyncio.Event().wait)())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def call() -> Any:
        return carry(fail)() if colour == "sync" else asyncio.run(carry(afail)())

    with pytest.raises(KeyError, match="mine") as caught:
        call()
    assert sum(str(entry.path) == handover.__file__ for entry in caught.traceback) <= 3
    del caught
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyError):
            carry(fail)()
        assert not [one for one in garbage() if isinstance(one, BaseException)]
        asyncio.run(cancelled())
        codes = (getattr(one, "f_code", None) for one in garbage())
        ours = [code for code in codes if code is not None and code.co_filename == handover.__file__]
        assert not ours
    finally:
        gc.enable()


def garbage() -> list[object]:
    """What only the collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


# -- what it is made of --------------------------------------------------------------------------------


def test_the_colour_name_and_signature_are_those_of_the_function() -> None:
    def work(a: int, *, b: str = "") -> None:
        """Do it."""

    async def awork(a: int) -> None:
        """Do it later."""

    for fn in (work, awork):
        carried = carry(fn)
        assert inspect.iscoroutinefunction(carried) is (fn is awork)
        assert (carried.__name__, carried.__doc__) == (fn.__name__, fn.__doc__)
        assert inspect.signature(carried) == inspect.signature(fn)


def test_arguments_result_and_error_pass_unchanged() -> None:
    error = KeyError("mine")
    script = Script("value", error)
    carried = carry(script)
    assert carried(1, key="word") == "value"
    assert script.calls == [((1,), {"key": "word"})]
    with pytest.raises(KeyError) as caught:
        carried()
    assert caught.value is error


class Job:
    """Something with methods, and itself callable."""

    def method(self) -> tuple[Job, float | None]:
        return self, time_left()

    def __call__(self) -> tuple[Job, float | None]:
        return self.method()


def test_methods_partials_and_callable_objects_are_carried(clock: VirtualClock) -> None:
    job = Job()
    with perdure.deadline(5):
        for fn in (job.method, job, partial(Job.method, job)):
            assert in_a_thread(carry(fn)) == (job, 5)
    assert clock.now == 0


def test_the_methods_of_a_guarded_function_are_not_shown_as_if_they_were_carried() -> None:
    guarded = POLICY(Script("ok"))
    guarded.own = "attribute"  # type: ignore[attr-defined] # of the test
    assert not hasattr(carry(guarded), "own")


def generate() -> Iterator[int]:
    yield 1


async def agenerate() -> Any:
    yield 1


@pytest.mark.parametrize("fn", [None, 5, "work", generate, agenerate, partial(generate)])
def test_what_cannot_be_carried_is_refused(fn: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^fn must be a .*, got "):
        carry(fn)


def test_a_coroutine_given_by_mistake_is_refused_without_a_warning_about_it() -> None:
    async def work() -> None: ...

    with pytest.raises(perdure.ConfigError, match="not the result of calling it"):
        carry(work())  # type: ignore[type-var] # the mistake
