"""Functions that do what a list says, for tests."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import clock
from perdure.testing.virtual import apass, pass_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

__all__ = ["Script", "took"]


@dataclass(frozen=True, slots=True)
class took:  # noqa: N801 - reads as a word of the script: took(2.0, TimeoutError())
    """An outcome that takes ``seconds`` first: ``Script(took(2.0, ConnectionError()), "ok")``."""

    seconds: float
    outcome: object


class Script:
    """A function that plays a list of outcomes, one for each call, and remembers the calls.

    An outcome that is an exception (or exception class) is raised, ``took(seconds, outcome)`` waits first (on
    the virtual clock where there is one), anything else is returned::

        play = Script(ConnectionError("no"), took(0.5, TimeoutError()), "ok")
        assert perdure.Retry().call(play) == "ok"

    ``asynchronous`` is the same script as a coroutine function. ``calls`` holds (args, kwargs) of each call
    and ``times`` when they began on the clock in force. A call past the end raises AssertionError.
    Safe for one thread or task at a time; concurrent calls share the list.
    """

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = outcomes
        self.calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
        self.times: list[float] = []
        self.__name__ = self.__qualname__ = "script"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Play the next outcome."""
        seconds, outcome = self._next(args, kwargs)
        if seconds:
            pass_time(seconds)
        return _deliver(outcome)

    @property
    def asynchronous(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The same script, played by a coroutine function."""

        async def script(*args: object, **kwargs: object) -> Any:
            seconds, outcome = self._next(args, kwargs)
            if seconds:
                await apass(seconds)
            return _deliver(outcome)

        return script

    def _next(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[float, object]:
        number = len(self.calls)
        self.calls.append((args, kwargs))
        self.times.append(clock.monotonic())
        if number >= len(self.outcomes):
            raise AssertionError(
                f"the script has {len(self.outcomes)} outcomes and was called {number + 1} times"
            )
        outcome = self.outcomes[number]
        return (outcome.seconds, outcome.outcome) if isinstance(outcome, took) else (0.0, outcome)


def _deliver(outcome: Any) -> Any:
    if _is_error(outcome):
        raise outcome
    return outcome


def _is_error(outcome: object) -> bool:
    return issubclass(outcome if isinstance(outcome, type) else type(outcome), BaseException)
