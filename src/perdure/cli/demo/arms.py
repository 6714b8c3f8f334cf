"""The arms: the same function, sent once, in a naive loop, with `@perdure.retry`, and by a `Dependency`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perdure.cli.demo.traffic import Call

Send = Callable[["Call"], None]

NAIVE_ATTEMPTS: Final = 4


def no_retry(send: Send) -> Send:
    """Return the function as it is: one attempt."""
    return send


def naive_loop(send: Send) -> Send:
    """Wrap it as people do by hand: the same number of attempts, any exception, at once."""

    def call(what: Call) -> None:
        for attempt in range(1, NAIVE_ATTEMPTS + 1):
            try:
                return send(what)
            except Exception:
                if attempt == NAIVE_ATTEMPTS:
                    raise
        return None

    return call


def perdure_retry(send: Send) -> Send:
    """Decorate it with bare `@perdure.retry`: no argument, every default."""
    import perdure

    return perdure.retry(send)


def dependency(send: Send) -> Send:
    """Decorate it with a `Dependency` of its own, as it is by default: retry, budget and gate."""
    import perdure

    # A new one for each run: what it learned of another server must not count here.
    return perdure.Dependency("perdure demo", replace=True)(send)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to make the call. `code` is what a reader would write. Immutable."""

    name: str
    code: str
    wrap: Callable[[Send], Send]


_FETCH: Final = "def fetch(url):\n    return urlopen(url, timeout=0.5)"
_NO_RETRY: Final = Arm("no retry", _FETCH, no_retry)
_RETRY: Final = Arm("@perdure.retry", "@perdure.retry\n" + _FETCH, perdure_retry)
_DEPENDENCY: Final = Arm("Dependency", 'api = perdure.Dependency("api")\n\n@api\n' + _FETCH, dependency)

ARMS: Final = (
    _NO_RETRY,
    Arm(
        "naive loop",
        f"for _ in range({NAIVE_ATTEMPTS}):\n    try:\n        return fetch(url)\n"
        "    except Exception as error:\n        last = error\nraise last",
        naive_loop,
    ),
    _RETRY,
    _DEPENDENCY,
)
OVERLOAD_ARMS: Final = (_NO_RETRY, _RETRY, _DEPENDENCY)


def place_of(name: str) -> int:
    """Return the place of an arm among all: it has the same colour in every picture and table."""
    return next(place for place, arm in enumerate(ARMS) if arm.name == name)
