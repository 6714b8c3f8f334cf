"""Who may listen, how often, and that no listener changes what happens to a call."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import events
from perdure.testing import Script, no_waits
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure import Event


def shout(_event: Event) -> None:
    raise RuntimeError("a listener with a bug")


def call(*outcomes: object) -> object:
    with no_waits():
        return perdure.Retry().call(Script(*outcomes))


def test_a_listener_hears_until_it_is_stopped() -> None:
    heard: list[Event] = []
    stop = perdure.listen(heard.append)
    call("ok")
    stop()
    call("ok")
    assert len(heard) == 4


def test_stopping_twice_is_harmless() -> None:
    stop = perdure.listen(lambda _event: None)
    stop()
    stop()
    assert not events.listeners


def test_one_function_can_listen_twice_and_stop_once() -> None:
    heard: list[Event] = []
    perdure.listen(heard.append)
    stop = perdure.listen(heard.append)
    call("ok")
    assert len(heard) == 8
    stop()
    call("ok")
    assert len(heard) == 12


def test_listeners_hear_in_the_order_in_which_they_came() -> None:
    heard: list[str] = []
    perdure.listen(lambda _event: heard.append("first"))
    perdure.listen(lambda _event: heard.append("second"))
    call("ok")
    assert heard == ["first", "second"] * 4


@pytest.mark.parametrize("colour", COLOURS)
def test_a_listener_that_raises_changes_nothing(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    perdure.listen(shout)
    played = play(colour, perdure.Retry(), ConnectionError(), "ok")
    assert played.value == "ok"
    assert played.names[-1] == "call.end", "the listeners after it hear all the same"
    complaints = [one for one in caplog.records if "listener" in one.getMessage()]
    assert len(complaints) == 1, "once, not for every event"
    assert complaints[0].name == "perdure"
    assert complaints[0].exc_info is not None
    assert complaints[0].exc_info[0] is RuntimeError


@pytest.mark.parametrize("colour", COLOURS)
def test_a_base_exception_in_a_listener_passes_at_once(colour: str) -> None:
    class Interrupt(BaseException):
        pass

    def interrupt(event: Event) -> None:
        if event.name == "retry.scheduled":
            raise Interrupt

    perdure.listen(interrupt)
    played = play(colour, perdure.Retry(), ConnectionError(), "ok")
    assert isinstance(played.error, Interrupt)
    assert played.calls == 1


def test_a_listener_may_stop_itself() -> None:
    heard: list[str] = []

    def once(event: Event) -> None:
        heard.append(event.name)
        stop()

    stop = perdure.listen(once)
    call("ok")
    assert heard == ["call.start"]


def test_a_listener_may_make_guarded_calls_and_is_not_told_of_those() -> None:
    """Else each of them would make more, without end."""
    heard: list[str] = []

    def nested(event: Event) -> None:
        heard.append(event.name)
        call("inner")

    perdure.listen(nested)
    assert call("ok") == "ok"
    assert heard == ["call.start", "attempt.start", "attempt.end", "call.end"]


@pytest.mark.parametrize("listener", [None, "print", 3])
def test_a_listener_that_cannot_be_called_is_refused(listener: object) -> None:
    with pytest.raises(
        perdure.ConfigError, match=r"^listener must be a (plain )?callable that takes an event, got "
    ):
        perdure.listen(listener)  # type: ignore[arg-type]


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns as often as Python can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hurried_threads")
def test_threads_that_come_and_go_together_lose_no_listener() -> None:
    def come_and_go() -> None:
        for _ in range(200):
            perdure.listen(lambda _event: "stays")
            perdure.listen(lambda _event: "goes")()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(come_and_go) for _ in range(8)]:
            done.result()
    assert len(events.listeners) == 8 * 200
