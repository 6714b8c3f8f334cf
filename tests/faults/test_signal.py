"""Whose failure it was: what counts for a breaker and a gate."""

from __future__ import annotations

import pytest

from perdure.faults import Fault, FaultKind
from perdure.faults.signal import Signal, quoted, signal_of

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


def made(package: str, name: str = "Error", *bases: type[Exception]) -> Exception:
    """An exception of a class that says it comes from `package`."""
    cls: type[Exception] = type(name, bases or (Exception,), {"__module__": f"{package}.exceptions"})
    return cls()


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("wanted", [True, False])
def test_what_is_local_is_neutral_of_every_kind(kind: FaultKind, wanted: bool) -> None:
    error = made("pooled", "PoolTimeout")
    assert signal_of(error, Fault(kind, None, "local: no free connection"), wanted=wanted) is Signal.NEUTRAL


@pytest.mark.parametrize("package", ["httpx", "httpx2", "requests", "niquests", "urllib3", "aiohttp"])
def test_what_an_http_client_says_by_itself_is_no_answer_of_the_dependency(package: str) -> None:
    error = made(package)
    assert signal_of(error, Fault(P, None, "certificate not accepted"), wanted=False) is Signal.NEUTRAL
    assert signal_of(error, Fault(P, None, "HTTP 404 Not Found"), wanted=False) is Signal.ANSWER
    assert signal_of(error, Fault(P, None, "HTTP 404 Not Found"), wanted=True) is Signal.FAILURE
    assert signal_of(made("shop"), Fault(P, None, "no such seat"), wanted=False) is Signal.ANSWER


@pytest.mark.parametrize(
    ("error", "why", "expected"),
    [
        (
            made("urllib3", "NewConnectionError", type("ConnectTimeoutError", (Exception,), {})),
            "refused",
            "FAILURE",
        ),
        (made("urllib3", "ConnectTimeoutError"), "connect timed out", "OVERLOAD"),
        (made("shop", "SeatTimeout"), "no seat", "OVERLOAD"),
        (made("shop", "Taken", type("SeatTimeout", (Exception,), {})), "no seat", "OVERLOAD"),
        (TimeoutError(), "timed out", "OVERLOAD"),
        (made("shop"), "no seat", "FAILURE"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_timeout_is_congestion(error: Exception, why: str, expected: str) -> None:
    assert signal_of(error, Fault(T, None, why), wanted=True) is Signal[expected]


@pytest.mark.parametrize("word", ["timeout", "timed out", '"', '" timeout', 'timeout "', '"timed out"', ""])
def test_a_quoted_word_of_a_server_says_nothing_to_a_breaker(word: str) -> None:
    fault = Fault(A, None, f"HTTP 200, stream: {quoted(word)} in 1 of 2")
    assert signal_of(made("shop"), fault, wanted=True) is Signal.FAILURE
    beside = Fault(A, None, f"{quoted(word)} timed out")
    assert signal_of(made("shop"), beside, wanted=True) is Signal.OVERLOAD
