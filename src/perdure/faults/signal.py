"""What a failed attempt says about the dependency, for the breaker and the gate.

The classifier says whether another attempt makes sense; this says whose failure it was. A 404 is an answer of a
dependency that is well; a bug in the caller's code says nothing about it; a timeout is both a failure and a sign
of congestion.
"""

from __future__ import annotations

import re
from enum import IntEnum

from perdure.errors import FaultyResponse
from perdure.faults.kinds import Fault, FaultKind

__all__ = ["Signal", "quoted", "signal_of"]


class Signal(IntEnum):
    """How a result counts. Immutable, safe to share everywhere.

    `ANSWER`: the dependency answered, with a value or with a refusal of its own (a success for the breaker).
    `FAILURE`: it failed. `OVERLOAD`: it failed in a way that shows congestion (timeouts, 503, 529).
    `THROTTLED`: it asks for less (429): congestion, and no failure. `NEUTRAL`: it says nothing.
    """

    NEUTRAL = 0
    ANSWER = 1
    FAILURE = 2
    OVERLOAD = 3
    THROTTLED = 4


_CLIENTS = frozenset(
    {
        "aiohttp",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "niquests",
        "requests",
        "urllib3",
        "urllib3_future",
    }
)
"""HTTP clients. Their tables say what is a timeout: a refused connection of urllib3 inherits from one."""

_LOCAL = _CLIENTS | {
    *(
        "builtins",
        "asyncio",
        "_queue",
        "queue",
        "concurrent",
        "json",
        "perdure",
        "subprocess",
        "ssl",
        "socket",
    )
}
"""Packages whose permanent errors come from this process, unless they carry a status."""

_QUOTED = re.compile(r'"[^"]*"')

_CONGESTED = ("HTTP 503", "HTTP 529")
_CONFLICTS = ("HTTP 409", "SQLSTATE 40", "SQLSTATE 55P03", "deadlock", "lock wait timeout", "SQLITE_BUSY")
"""Two callers were in each other's way: the dependency is well, and said so."""
_ASKED_FOR_LESS = ("HTTP 429", "HTTP 420", "HTTP 509", "HTTP 403")


def quoted(word: str) -> str:
    """Give a word of the server's own, of which nobody knows what it means, as it may stand in a `Fault.why`.

    What is in double quotes is for people: `signal_of` does not look into it, so that no server steers the breaker
    by a code such as "session_timeout". Never raises. Pure: safe from any thread or task.
    """
    return '"' + word.replace('"', "'") + '"'


def signal_of(error: BaseException, fault: Fault, *, wanted: bool) -> Signal:  # noqa: PLR0911 - a table in words
    """How a failed attempt counts; ``wanted``: its policy takes it for a failure worth another attempt.

    Never raises. Pure: safe from any thread or task.
    """
    kind, why = fault.kind, fault.why
    if '"' in why:
        why = _QUOTED.sub('""', why)
    if kind is FaultKind.NEUTRAL or why.startswith("local: "):  # a pool of ours that is exhausted, a bad URL
        return Signal.NEUTRAL
    if kind is FaultKind.STALE:
        return Signal.ANSWER if why.startswith("HTTP 401") else Signal.NEUTRAL
    if kind is FaultKind.PERMANENT:
        if wanted:
            return Signal.FAILURE
        return Signal.ANSWER if _is_answer(error, why) else Signal.NEUTRAL
    if kind is FaultKind.TRANSIENT and why.startswith(_CONFLICTS):
        return Signal.ANSWER
    if why.startswith(_ASKED_FOR_LESS) or (kind is FaultKind.THROTTLED and _is_rate_limit(why)):
        return Signal.THROTTLED
    is_congestion = kind is FaultKind.THROTTLED or why.startswith(_CONGESTED) or _is_timeout(error, why)
    return Signal.OVERLOAD if is_congestion else Signal.FAILURE


def _is_rate_limit(why: str) -> bool:
    """Whether a throttle is about this caller, and not about the server's load."""
    return not why.startswith(_CONGESTED) and "overload" not in why.lower()


def _is_answer(error: BaseException, why: str) -> bool:
    if type(error) is FaultyResponse:
        return True
    if why.startswith(("HTTP ", "SQLSTATE ", "marked ")):
        return True
    if why.startswith(("bug: ", "unknown ")):
        return False
    return _package(error) not in _LOCAL


def _is_timeout(error: BaseException, why: str) -> bool:
    """By class, by name (client libraries have their own), or by what the classifier found underneath."""
    if isinstance(error, TimeoutError) or "timed out" in why or "timeout" in why.lower():
        return True
    if _package(error) in _CLIENTS:
        return False
    return any("timeout" in cls.__name__.lower() for cls in type(error).__mro__[:-2])


def _package(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]
