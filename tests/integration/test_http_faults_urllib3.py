"""What comes out of urllib3's and requests' own retries, and requests' leniency; provoked."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from perdure.faults import Fault, FaultKind, classify
from tests.integration import wire

T, A, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.PERMANENT

STUBBORN = urllib3.Retry(total=1, status_forcelist=[503], backoff_factor=0)


def with_requests(url: str) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=STUBBORN))
        return session.get(url, timeout=10)


def with_urllib3(url: str) -> Any:
    with urllib3.PoolManager(retries=STUBBORN, timeout=10) as pool:
        return pool.request("GET", url)


def failed(library: str, url: str) -> Exception:
    get = with_requests if library == "requests" else with_urllib3
    with pytest.raises((requests.RequestException, urllib3.exceptions.HTTPError)) as caught:
        get(url)
    return caught.value


@pytest.mark.parametrize(
    ("library", "name", "step", "fault"),
    [
        ("urllib3", "MaxRetryError", wire.answer(503), Fault(A, None, "HTTP 503 Service Unavailable")),
        ("requests", "RetryError", wire.answer(503), Fault(A, None, "HTTP 503 Service Unavailable")),
        ("urllib3", "MaxRetryError", wire.redirect("/"), Fault(P, None, "too many redirects")),
        ("urllib3", "MaxRetryError", wire.reset(), Fault(A, None, "connection reset")),
        ("requests", "ConnectionError", wire.reset(), Fault(A, None, "connection reset")),
    ],
)  # fmt: skip
def test_when_the_retries_of_the_client_are_used_up(
    library: str, name: str, step: wire.Step, fault: Fault
) -> None:
    with wire.serve(step) as server:
        error = failed(library, server.url)
        assert len(server.requests) == 2
    assert type(error).__name__ == name
    assert classify(error) == fault


@pytest.mark.parametrize("library", ["urllib3", "requests"])
def test_a_refused_connection_under_the_retries_of_the_client(library: str) -> None:
    with wire.refused() as port:
        assert classify(failed(library, f"http://127.0.0.1:{port}")) == Fault(T, None, "connection refused")


@pytest.mark.parametrize("get", [with_requests, with_urllib3], ids=["requests", "urllib3"])
def test_b087_a_header_block_that_was_cut_passes_for_an_empty_answer(get: Any) -> None:
    """No exception, so nothing to classify: a caller who needs a body has to look."""
    with wire.serve(wire.cut_headers()) as server:
        response = get(server.url)
    assert "content-length" not in response.headers


def test_a_response_that_urllib3_gives_is_classified_as_it_is() -> None:
    with wire.serve(wire.answer(429, {"Retry-After": "7"})) as server, urllib3.PoolManager() as pool:
        response = pool.request("GET", server.url, retries=False)
    assert classify(response).hint == 7
