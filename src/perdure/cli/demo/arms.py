"""The three arms: the same function, sent once, in a naive loop, and with `@perdure.retry`."""

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


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to make the call. `code` is what a reader would write. Immutable."""

    name: str
    code: str
    wrap: Callable[[Send], Send]


_FETCH: Final = "def fetch(url):\n    return urlopen(url, timeout=0.5)"

ARMS: Final = (
    Arm("no retry", _FETCH, no_retry),
    Arm(
        "naive loop",
        f"for _ in range({NAIVE_ATTEMPTS}):\n    try:\n        return fetch(url)\n"
        "    except Exception as error:\n        last = error\nraise last",
        naive_loop,
    ),
    Arm("@perdure.retry", "@perdure.retry\n" + _FETCH, perdure_retry),
)
