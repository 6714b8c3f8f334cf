"""niquests and urllib3-future, which replace requests and urllib3 and so need an environment of their own.

pytest tests/niquests        # where niquests is installed
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.faults import Fault, FaultKind, Safety, classify, safety_of
from perdure.faults.requests import RULES as OF_REQUESTS
from perdure.faults.signal import Signal, signal_of
from perdure.faults.urllib3 import RULES as OF_URLLIB3
from tests.faults.libraries import exceptions_in, without_row
from tests.integration import wire

niquests = pytest.importorskip("niquests")
urllib3_future = pytest.importorskip("urllib3_future")

T, R, A, P = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS, FaultKind.PERMANENT
FAILURE, OVERLOAD, NEUTRAL = Signal.FAILURE, Signal.OVERLOAD, Signal.NEUTRAL
WAIT = 0.05


def by_niquests(url: str, timeout: float, ca_file: str | None) -> Any:
    with niquests.Session() as session:
        session.trust_env = False
        session.verify = ca_file or True
        response = session.post(url, timeout=timeout)
        response.raise_for_status()
        return response


def by_urllib3_future(url: str, timeout: float, ca_file: str | None) -> Any:
    with urllib3_future.PoolManager(retries=False, timeout=timeout, ca_certs=ca_file) as pool:
        return pool.request("POST", url)


CLIENTS = {"niquests": by_niquests, "urllib3_future": by_urllib3_future}
BOTH = pytest.mark.parametrize("client", CLIENTS)


def failure(client: str, url: str, timeout: float = 10, ca_file: str | None = None) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the test is about
        CLIENTS[client](url, timeout, ca_file)
    return caught.value


def judged(error: Exception) -> tuple[FaultKind, Signal]:
    fault = classify(error)
    return fault.kind, signal_of(error, fault, wanted=bool(fault.retryable))


@BOTH
@pytest.mark.parametrize(
    ("step", "timeout", "expected"),
    [
        (wire.close(), 10, (A, FAILURE)),
        (wire.reset(), 10, (A, FAILURE)),
        (wire.garbage(), 10, (A, FAILURE)),
        (wire.cut_headers(), 10, (A, FAILURE)),
        (wire.short_body(), 10, (A, FAILURE)),
        (wire.cut_chunked(), 10, (A, FAILURE)),
        (wire.reset_in_body(), 10, (A, FAILURE)),
        (wire.hang(), WAIT, (A, OVERLOAD)),
        (wire.hang_in_body(), WAIT, (A, OVERLOAD)),
        (wire.bad_gzip(), 10, (A, FAILURE)),
    ],
)
def test_an_event_of_the_server(
    step: wire.Step, timeout: float, expected: tuple[FaultKind, Signal], client: str
) -> None:
    with wire.serve(step) as server:
        assert judged(failure(client, server.url, timeout)) == expected


@BOTH
def test_a_connection_that_was_not_made(client: str) -> None:
    with wire.refused() as port:
        refused = failure(client, f"http://127.0.0.1:{port}")
    with wire.silent() as port:
        silent = failure(client, f"http://127.0.0.1:{port}", WAIT)
    assert (judged(refused), classify(refused).why) == ((T, FAILURE), "connection refused")
    assert (judged(silent), classify(silent).why) == ((T, OVERLOAD), "connect timed out")


@BOTH
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("wrong_host", (P, NEUTRAL)),
        ("expired", (P, NEUTRAL)),
        ("untrusted", (P, NEUTRAL)),
        ("plain", (P, NEUTRAL)),
        ("close", (T, FAILURE)),
        ("reset", (T, FAILURE)),
        ("hang", (T, OVERLOAD)),
    ],
)
def test_a_tls_handshake_that_fails(mode: Any, expected: tuple[FaultKind, Signal], client: str) -> None:
    with wire.serve(tls=mode) as server:
        error = failure(client, server.url, WAIT if mode == "hang" else 10, server.ca_file)
    assert judged(error) == expected


def test_an_answer_goes_by_all_that_it_says() -> None:
    busy, quota = wire.answer(503, {"Retry-After": "7"}), '{"error": {"code": "insufficient_quota"}}'
    with wire.serve(busy, wire.answer(429, body=quota)) as server:
        errors = [failure("niquests", server.url) for _ in range(2)]
    assert classify(errors[0]) == Fault(R, 7.0, "HTTP 503 Service Unavailable")
    assert classify(errors[1]).kind is P
    assert safety_of(errors[0]) is Safety.UNSAFE


def test_a_header_of_the_answer_that_cannot_be_read() -> None:
    with wire.serve(wire.garbage(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n")) as server:
        error = failure("niquests", server.url)
    assert isinstance(error, niquests.exceptions.InvalidHeader)
    assert classify(error) == Fault(A, None, "header damaged")
    assert classify(niquests.exceptions.InvalidHeader("must be str")).kind is P


def test_every_class_has_a_row_but_the_bases_that_say_nothing() -> None:
    assert without_row(exceptions_in(niquests.exceptions), OF_REQUESTS) == {"RequestException"}
    found = exceptions_in(urllib3_future.exceptions)
    assert without_row(found, OF_URLLIB3) == {"HTTPError", "PoolError", "RequestError"}
