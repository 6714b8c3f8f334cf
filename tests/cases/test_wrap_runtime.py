"""Guarded calls among what else goes on in an interpreter: signals, recursion, contexts, iteration, exit; B026."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Constant, Retry, clock
from perdure.testing import Script, VirtualClock, no_waits
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

POLICY = Retry(attempts=3, backoff=Constant(0))
HOUR = Retry(attempts=3, backoff=Constant(3600), deadline=None)
SOURCES = Path(perdure.__file__).parent.parent


def test_a_real_ctrl_c_ends_a_sync_wait_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """B026: the signal itself, in real time; the wait is a lock that a signal interrupts."""
    waiting, ended, real_sleep = threading.Event(), threading.Event(), clock.sleep

    def sleep(seconds: float) -> None:
        waiting.set()
        real_sleep(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    main_thread = threading.get_ident()

    def press() -> None:
        assert waiting.wait(30)
        # A signal that comes between Python's last look and the blocking call waits with it: let it block first.
        ended.wait(0.1)
        signal.pthread_kill(main_thread, signal.SIGINT)

    script = Script(ConnectionRefusedError("down"), "never")
    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        HOUR.call(script)
    ended.set()
    presser.join(30)
    assert len(script.calls) == 1


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_real_ctrl_c_ends_an_async_wait_of_an_hour(loop: str) -> None:
    """B026: asyncio cancels its main task, trio raises in it; both come out as KeyboardInterrupt."""
    script = Script(ConnectionRefusedError("down"), "never")

    async def press() -> None:
        for _ in range(5):
            if loop == "trio":
                await trio.lowlevel.checkpoint()
            else:
                await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        if loop == "trio":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(press)
                await HOUR.call(script.asynchronous)
        else:
            task = asyncio.ensure_future(press())
            await HOUR.call(script.asynchronous)
            await task

    with pytest.raises(KeyboardInterrupt):
        try:
            run_async(loop, main)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
    assert len(script.calls) == 1


@pytest.mark.parametrize("virtual", [False, True])
def test_endless_recursion_through_guarded_functions_ends_as_such(virtual: bool) -> None:
    """Where the stack ends inside of perdure, too: a RecursionError comes out, and everything works afterwards."""

    @POLICY
    def down(number: int) -> int:
        return down(number + 1) + 1

    with VirtualClock() if virtual else no_waits():
        for _ in range(3):
            with pytest.raises(RecursionError):
                down(0)
        assert POLICY.call(Script(ConnectionRefusedError("1"), ConnectionRefusedError("2"), "ok")) == "ok"


user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.parametrize(
    "policy", [POLICY, POLICY.replace(attempt_timeout=50, nested="outer")], ids=["plain", "full"]
)
@pytest.mark.parametrize("colour", COLOURS)
def test_what_a_function_sets_in_its_context_is_there_for_the_caller(colour: str, policy: Retry) -> None:
    """A guarded call runs in the caller's own context, as the bare call does; each attempt sees the last one's."""
    seen: list[str] = []

    def work() -> None:
        seen.append(user.get())
        user.set(f"attempt {len(seen)}")
        if len(seen) < 3:
            raise ConnectionRefusedError("no")

    async def work_later() -> None:
        work()

    async def main() -> str:
        if colour.endswith("block"):
            async for attempt in policy:
                with attempt:
                    await work_later()
        else:
            await policy(work_later)()
        return user.get()

    token = user.set("caller")
    try:
        if colour == "sync":
            policy(work)()
            after = user.get()
        elif colour == "block":
            for attempt in policy:
                with attempt:
                    work()
            after = user.get()
        else:
            after = run_async(colour, main)
    finally:
        user.reset(token)
    assert (seen, after) == (["caller", "attempt 1", "attempt 2"], "attempt 3")


class Pages:
    """A client that iterates: each page is asked for under guard."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self) -> int:
        self.asked += 1
        if self.asked % 2:
            raise ConnectionRefusedError("no")
        return self.asked // 2

    def __iter__(self) -> Iterator[int]:
        return self

    @POLICY
    def __next__(self) -> int:
        page = self.ask()
        if page > 3:
            raise StopIteration
        return page

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    @POLICY
    async def __anext__(self) -> int:
        page = self.ask()
        if page > 3:
            raise StopAsyncIteration
        return page


@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_the_end_of_an_iteration_is_no_failure(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    """A guarded __next__ says that it is over with an exception; no error line, no note, no suppressed retry."""
    caplog.set_level(logging.INFO, "perdure")
    told: list[str] = []
    stop = perdure.listen(lambda event: told.append(f"{event.name} {event.reason}"))

    async def main() -> list[int]:
        return [page async for page in Pages()]

    pages = list(Pages()) if colour == "sync" else run_async(colour, main)
    stop()
    assert pages == [1, 2, 3]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "retry.suppressed permanent" not in told


def run_program(program: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert done.stderr == ""
    return done.stdout


AT_EXIT = """
import atexit, perdure
policy = perdure.Retry(attempts=3, backoff=perdure.Constant(0))
calls = []
@policy
def leave():
    calls.append(1)
    if len(calls) < 3:
        raise ConnectionRefusedError("no")
    print("left after", len(calls))
atexit.register(leave)
"""


def test_guarded_calls_work_while_the_interpreter_ends() -> None:
    """In atexit functions, where the first failure of the process may load what nothing needed before."""
    assert run_program(AT_EXIT).splitlines() == ["left after 3"]


EVERYTHING = """
import asyncio, perdure
policy = perdure.Retry(attempts=3, backoff=perdure.Constant(0), attempt_timeout=5)
class Work:
    def __init__(self):
        self.calls = 0
    def __call__(self):
        self.calls += 1
        if self.calls < 3:
            raise ConnectionRefusedError("no")
        return self.calls
    async def later(self):
        return self()
    def items(self):
        yield self()
print(policy(Work())(), asyncio.run(policy(Work().later)()), list(policy(Work().items)()), policy.call(Work()))
for attempt in policy:
    with attempt:
        if attempt.number < 3:
            raise ConnectionRefusedError("no")
        print(attempt.number)
print(policy.outcome(lambda: 1 / 0).stop, len(str(policy.explain())) > 100)
"""


@pytest.mark.parametrize(
    "options", [["-OO"], ["-X", "dev"], ["-W", "error"], ["-I", "-S"], ["-X", "importtime"]]
)
def test_it_works_in_every_mode_of_the_interpreter(options: list[str]) -> None:
    """Without docstrings and asserts, in development mode, with every warning an error, without site packages."""
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{EVERYTHING}"
    if "importtime" in options:
        done = subprocess.run(
            [sys.executable, *options, "-c", program], check=True, capture_output=True, text=True, timeout=60
        )
        assert "3 3 [3] 3" in done.stdout
    else:
        assert run_program(program, *options).splitlines() == ["3 3 [3] 3", "3", "permanent True"]


def test_a_guarded_function_may_be_called_by_many_event_loops_in_turn_and_at_once() -> None:
    """No asyncio primitive at rest: loops come and go, in one thread and in several."""
    calls: dict[int, int] = {}

    @POLICY
    async def work(key: int) -> int:
        calls[key] = calls.get(key, 0) + 1
        if calls[key] < 3:
            raise ConnectionRefusedError("no")
        await asyncio.sleep(0)
        return key

    slow = POLICY.replace(backoff=Constant(0.001), attempt_timeout=30)(work.__wrapped__)  # type: ignore[attr-defined]
    for key in range(5):
        assert asyncio.run(work(key)) == key
    results: list[int] = []

    def in_thread(key: int) -> None:
        results.append(asyncio.run(slow(key)))

    threads = [threading.Thread(target=in_thread, args=(key,)) for key in range(100, 108)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == list(range(100, 108))
    assert set(calls.values()) == {3}


def test_guarding_costs_no_frame_that_stays() -> None:
    """A generator or coroutine that is guarded can be left and collected without running anything."""

    def items() -> Iterator[int]:
        raise AssertionError("never started")
        yield 1

    async def work() -> None:
        raise AssertionError("never started")

    makers: list[Callable[[], Any]] = [POLICY(items), lambda: POLICY.call(items)]
    for make in makers:
        make().close()
    for coroutine in (POLICY(work)(), POLICY.call(work), POLICY.outcome(work)):
        coroutine.close()  # type: ignore[union-attr] # of coroutine functions
