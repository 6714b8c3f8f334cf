"""What a status means at the end of the attempts, and where it is not what it seems: B084, B086, B087."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import requests
import urllib3

from perdure import Constant, FaultKind, ResultRejected, Retry, classify
from perdure.content import json as json_rule
from perdure.content import rejects
from tests.faults.foreign import ForeignError
from tests.harness import COLOURS, play
from tests.integration import wire

POLICY = Retry(attempts=2, backoff=Constant(0))


def answer(status: int, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ForeignError(response=SimpleNamespace(status_code=status, headers=named))


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 522, 529])
def test_at_the_end_of_the_attempts_every_status_ends_alike(colour: str, status: int) -> None:
    """B084: the last error itself, whichever status it has, and whether or not it came with a delay."""
    for headers in ({}, {"Retry_After": "1"}):
        last = answer(status, **headers)
        played = play(colour, POLICY, answer(status, **headers), last, "never reached")
        assert played.error is last
        assert played.calls == 2
        (note,) = last.__notes__
        assert "2 attempts" in note
        assert "no attempts left" in note


@pytest.mark.parametrize("colour", COLOURS)
def test_a_413_is_retried_only_when_it_says_when(colour: str) -> None:
    """B086: 429 and 503 with or without a delay, 413 only with one."""
    assert play(colour, POLICY, answer(413), "never reached").calls == 1
    assert play(colour, POLICY, answer(413, Retry_After="soon"), "never reached").calls == 1
    assert play(colour, POLICY, answer(413, Retry_After="2"), "done").value == "done"
    for status in (429, 503):
        assert play(colour, POLICY, answer(status), "done").value == "done"


def by_requests(url: str) -> Any:
    with requests.Session() as session:
        return session.get(url, timeout=5)


def by_urllib3(url: str) -> Any:
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url, retries=False, timeout=5)


@pytest.mark.parametrize("get", [by_requests, by_urllib3])
def test_an_answer_cut_inside_its_headers_looks_like_an_empty_200(get: Any) -> None:
    """B087: the client sees nothing wrong; where a JSON document was expected, its absence is the failure."""
    with wire.serve(wire.cut_headers()) as server:
        result = get(server.url)
        assert classify(result).kind is FaultKind.NEUTRAL
        with pytest.raises(ResultRejected):
            POLICY.replace(reject=rejects(json_rule)).call(get, server.url)
        assert len(server.requests) == 3
