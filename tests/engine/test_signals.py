"""``close_on_signals`` in processes of their own; every step waits for a line of the other side."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 20.0

START = """
import asyncio, os, signal, sys, threading, time
import perdure

LONG = perdure.Retry(attempts=3, backoff=perdure.Constant(3600), deadline=None)

def say(*words):
    print(*words, flush=True)

def tell_when_closing():
    turn = threading.Event()
    while not isinstance(perdure.Retry().outcome(str).error, perdure.ShuttingDown):
        turn.wait(0.001)
    say("closing")

def asked():
    # In short waits: a signal that comes just before a call blocks in C is handled only when that returns.
    lines = []
    reader = threading.Thread(target=lambda: lines.append(sys.stdin.readline()), daemon=True)
    reader.start()
    while reader.is_alive():
        reader.join(0.02)
    return lines[0].strip()

def idle():
    while True:
        time.sleep(0.02)

def held():
    say("begun")
    threading.Thread(target=tell_when_closing, daemon=True).start()
    say("value", asked())

def waiting():
    perdure.listen(lambda event: event.name == "retry.scheduled" and say("begun"))
    def fail():
        raise ConnectionError("refused")
    LONG.replace(on_exhausted=lambda outcome: say(outcome.stop)).outcome(fail)

async def async_held(run_in_thread):
    say("begun")
    threading.Thread(target=tell_when_closing, daemon=True).start()
    say("value", await run_in_thread(asked))

def in_asyncio():
    async def main():
        task = asyncio.ensure_future(LONG(async_held)(asyncio.to_thread))
        while not task.done():
            await asyncio.wait([task], timeout=0.02)
        return await task
    asyncio.run(main())

def in_trio():
    import trio
    async def tick():
        while True:
            await trio.sleep(0.02)
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            await LONG(async_held)(trio.to_thread.run_sync)
            nursery.cancel_scope.cancel()
    trio.run(main)

def in_a_block():
    for attempt in LONG:
        with attempt:
            held()
"""


class Process:
    """A program that says lines and is told lines."""

    def __init__(self, program: str) -> None:
        command = [sys.executable, "-c", START + program]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        return self.process.wait(PATIENCE)


@pytest.fixture
def start() -> Iterator[Callable[[str], Process]]:
    processes: list[Process] = []

    def launch(program: str) -> Process:
        processes.append(Process(program))
        return processes[-1]

    yield launch
    for one in processes:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_wait_ends_and_then_the_signal_does_what_it_does(start: Any, number: int) -> None:
    process = start(
        "perdure.close_on_signals()\n"
        "try:\n    waiting()\n    idle()\nexcept KeyboardInterrupt:\n    say('interrupt')"
    )
    assert process.line() == "begun"
    process.send(number)
    assert process.line() == "shutdown"
    if number == signal.SIGINT:
        assert process.line() == "interrupt"
    assert process.end() == (0 if number == signal.SIGINT else -number)


PLACES = ["LONG.call(held)", "LONG(held)()", "in_a_block()", "in_asyncio()", "in_trio()"]


@pytest.mark.parametrize("place", PLACES)
def test_the_attempt_in_flight_finishes_before_the_process_ends(start: Any, place: str) -> None:
    process = start(f"perdure.close_on_signals()\n{place}\nidle()")
    assert process.line() == "begun"
    process.send(signal.SIGTERM)
    assert process.line() == "closing"
    process.tell("late but whole")
    assert process.line() == "value late but whole"
    assert process.end() == -signal.SIGTERM


@pytest.mark.parametrize("place", PLACES)
def test_an_attempt_that_hangs_holds_the_process_no_longer_than_the_grace_time(
    start: Any, place: str
) -> None:
    process = start(f"perdure.close_on_signals(grace=0.05)\n{place}")
    assert process.line() == "begun"
    process.send(signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_a_second_signal_ends_the_process_at_once(start: Any) -> None:
    process = start("perdure.close_on_signals(grace=3600)\nLONG.call(held)")
    assert process.line() == "begun"
    process.send(signal.SIGTERM)
    assert process.line() == "closing"
    process.send(signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_another_signal_counts_as_the_second(start: Any) -> None:
    process = start("perdure.close_on_signals(grace=3600)\nLONG.call(held)")
    assert process.line() == "begun"
    process.send(signal.SIGINT)
    assert process.line() == "closing"
    process.send(signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_an_earlier_handler_runs_when_the_calls_have_ended(start: Any) -> None:
    process = start(
        "signal.signal(signal.SIGTERM, lambda *_: (say('earlier'), os._exit(7)))\n"
        "perdure.close_on_signals(signal.SIGTERM)\n"
        "LONG.call(held)\nidle()"
    )
    assert process.line() == "begun"
    process.send(signal.SIGTERM)
    assert process.line() == "closing"
    process.tell("x")
    assert process.line() == "value x"
    assert process.line() == "earlier"
    assert process.end() == 7


def test_only_the_named_signals_are_taken(start: Any) -> None:
    process = start("perdure.close_on_signals(signal.SIGUSR1)\nLONG.call(held)")
    assert process.line() == "begun"
    process.send(signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_an_idle_process_ends_at_once(start: Any) -> None:
    process = start("perdure.close_on_signals(grace=3600)\nsay('idle')\nidle()")
    assert process.line() == "idle"
    process.send(signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_a_signal_in_the_middle_of_our_own_bookkeeping_does_not_hang(start: Any) -> None:
    """A handler runs on top of whatever the main thread does, also where that holds a lock of ours."""
    process = start(
        "from perdure import bypass\n"
        "perdure.close_on_signals(signal.SIGTERM)\n"
        "with bypass._lock:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "idle()"
    )
    assert process.end() == -signal.SIGTERM


def test_it_starts_no_thread_that_keeps_the_process_alive(start: Any) -> None:
    process = start("perdure.close_on_signals()\nsay(threading.active_count())")
    assert process.line() == "1"
    assert process.end() == 0


def test_handlers_are_set_in_the_main_thread_only() -> None:
    raised: list[BaseException] = []

    def install() -> None:
        try:
            perdure.close_on_signals(signal.SIGUSR1)
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join(PATIENCE)
    assert [type(error) for error in raised] == [ValueError]


def test_a_bad_grace_is_refused_before_any_handler_is_set() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(perdure.ConfigError, match=r"^grace must be a duration"):
        perdure.close_on_signals(grace=-1)
    assert signal.getsignal(signal.SIGTERM) is before
