"""What an answer says decides under every client: its delay, its body, its status, and what came of it before.

The rules themselves have their own tests; here each of them meets a real client. Ids: B068-B073, B076, B078, B079,
B081-B084, B086, B089, B090, B092, B093, B099, B101.
"""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Constant, FaultKind, Retry, classify, content
from perdure.testing import no_waits
from tests.cases.http_sessions import Ask, clients, dependency, play
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Iterator


# httpx leaves a generator of its own behind when a body is given up half read, which trio remarks on.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'httpcore:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def waits() -> Iterator[list[float]]:
    with no_waits() as skipped:
        yield skipped


OK = wire.answer(body=b"ok")
POLICY = Retry(deadline=None, backoff=Constant(3))


def busy(status: int = 429, body: Any = b"", **headers: str) -> wire.Step:
    """An answer that says that there is too much to do."""
    text = body if isinstance(body, bytes) else json.dumps(body)
    return wire.answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, text)


def in_(seconds: float, zone: str = "GMT") -> str:
    return formatdate(time.time() + seconds, usegmt=True).replace("GMT", zone)


@clients()
def test_b068_to_b073_what_the_server_asks_for_is_waited_for_and_nonsense_is_not(
    client: str, waits: list[float]
) -> None:
    asked = [
        ("7", 7, 10.5),
        (in_(100), 98, 111),
        (in_(100, "-0000"), 98, 111),  # B069
        ("1 Jan 2099 00:00:00", 3, 3),  # B070
        ("-1", 3, 3),  # B071
        ("\u00b2", 3, 3),  # B072
        ("0", 3, 3),
        (in_(-86_400), 3, 3),  # B073
    ]
    for value, least, most in asked:
        waits.clear()
        step = wire.garbage(
            b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\nRetry-After: "
            + value.encode("latin-1")
            + b"\r\nConnection: close\r\n\r\n"
        )
        with wire.serve(step, OK) as server:
            played = play(client, POLICY, Ask(server.url, "POST", b"order"))
        assert played.statuses == [200], value
        assert len(waits) == 1, value
        assert least <= waits[0] <= most, value


@clients()
def test_b072_b081_too_long_a_delay_gives_the_answer_back_at_once(client: str, waits: list[float]) -> None:
    for value in ("1209600", "9" * 5000):
        with wire.serve(busy(Retry_After=value)) as server:
            played = play(client, Retry(), Ask(server.url))
        assert (played.statuses, len(server.requests), waits) == ([429], 1, [])
        (record,) = played.ends[0].attempts
        assert record.fault.hint >= 1_209_600


@clients()
def test_b082_the_cap_is_where_a_call_ends(client: str, waits: list[float]) -> None:
    for delay, requests in (("60", 2), ("61", 1)):
        with wire.serve(busy(Retry_After=delay), OK) as server:
            play(client, Retry(deadline=None, hint_cap=60), Ask(server.url))
        assert len(server.requests) == requests
    assert len(waits) == 1
    assert 60 <= waits[0] <= 70


@clients()
def test_b083_the_record_on_the_response_says_where_each_delay_came_from(client: str) -> None:
    with wire.serve(busy(), busy(Retry_After="5"), wire.close(), OK) as server:
        played = play(client, POLICY, Ask(server.url))
    records = played.ends[0].attempts
    assert [record.source for record in records] == ["computed", "hint", "computed"]
    assert [record.number for record in records] == [1, 2, 3]
    assert [record.fault.kind for record in records[:2]] == [FaultKind.THROTTLED] * 2


@clients()
def test_b076_the_budget_that_is_used_up_says_how_long(client: str, waits: list[float]) -> None:
    limits = {
        "x_ratelimit_reset_requests": "1s",
        "x_ratelimit_reset_tokens": "1m0s",
        "x_ratelimit_remaining_tokens": "0",
    }
    with wire.serve(busy(**limits), OK) as server:
        play(client, POLICY, Ask(server.url))
    assert 60 <= waits[0] <= 70


RETRY_INFO = {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22.5s"}]}


@clients()
def test_b078_the_delay_in_a_body_is_seen_and_the_body_is_still_there(
    client: str, waits: list[float]
) -> None:
    with wire.serve(busy(503, RETRY_INFO)) as server:
        played = play(client, Retry(attempts=2, deadline=None), Ask(server.url))
    assert 22.5 <= waits[0] <= 33.75
    assert json.loads(played.ends[0].body) == RETRY_INFO


class ModelError(Exception):
    """What a framework makes of an error of its client."""


@clients()
def test_b079_b093_the_delay_is_found_under_an_error_that_wraps_the_clients(client: str) -> None:
    with wire.serve(busy(Retry_After="30")) as server:
        played = play(client, Retry(attempts=1), Ask(server.url), raise_on_exhausted=True)
    wrapper = ModelError("the model failed")
    wrapper.__cause__ = played.ends[0]
    fault = classify(wrapper)
    assert (fault.kind, fault.hint) == (FaultKind.THROTTLED, 30)


@clients()
def test_b084_every_status_ends_alike(client: str) -> None:
    for status in (408, 429, 500, 502, 503, 504):
        for headers in ({}, {"Retry_After": "1"}):
            with wire.serve(busy(status, b"last", **headers)) as server:
                played = play(client, Retry(attempts=2), Ask(server.url))
            assert (played.statuses, played.ends[0].body) == ([status], b"last")
            assert len(played.ends[0].attempts) == len(server.requests) == 2


@clients()
def test_b086_a_413_is_asked_again_only_where_it_says_when(client: str) -> None:
    for headers, requests in (({}, 1), ({"Retry_After": "soon"}, 1), ({"Retry_After": "2"}, 2)):
        with wire.serve(busy(413, **headers), OK) as server:
            play(client, Retry(), Ask(server.url))
        assert len(server.requests) == requests


def quota(delay: str | None = None) -> dict[str, Any]:
    per_day = {"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerProject"}]}
    info = [] if delay is None else [{"@type": "x/google.rpc.RetryInfo", "retryDelay": delay}]
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [per_day, *info]}}


@clients()
def test_b089_b090_a_429_without_money_is_final_and_one_that_is_back_soon_is_not(client: str) -> None:
    for body, requests in (
        ({"error": {"code": "insufficient_quota"}}, 1),
        (quota(), 1),
        (quota("43200s"), 1),
        (quota("36s"), 2),
        ({"error": {"code": "rate_limit_exceeded"}}, 2),
    ):
        with wire.serve(busy(429, body), OK) as server:
            played = play(client, Retry(deadline=None), Ask(server.url, "POST", b"prompt"))
        assert len(server.requests) == requests, body
        if requests == 1:
            assert json.loads(played.ends[0].body) == body


OVERLOADED = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'
HELLO = b'event: content_block_delta\ndata: {"delta": {"text": "Hello"}}\n\n'


@clients()
def test_b092_an_overload_inside_a_200_is_asked_again_until_content_came(client: str) -> None:
    stream = {"Content-Type": "text/event-stream"}
    with wire.serve(
        wire.answer(200, stream, OVERLOADED), wire.answer(200, stream, HELLO + OVERLOADED)
    ) as server:
        played = play(client, Retry(), Ask(server.url), content=content.sse)
        assert len(server.requests) == 2
    assert played.ends[0].body == HELLO + OVERLOADED


@clients()
def test_b099_a_bad_signature_is_tried_again_where_the_clock_is_off(client: str) -> None:
    refreshed: list[int] = []
    policy = Retry(refresh=lambda: refreshed.append(1))
    for skew, requests in ((0, 1), (3600, 2)):
        step = busy(403, {"Code": "AuthFailure"}, Date=in_(skew))
        with wire.serve(step, step, OK) as server:
            play(client, policy, Ask(server.url))
        assert len(server.requests) == requests
    assert refreshed == [1]


@clients()
@pytest.mark.parametrize("make", [Retry, dependency], ids=["retry", "dependency"])
def test_b101_attempts_cover_whatever_they_met(client: str, make: Any) -> None:
    steps = (wire.close(), wire.answer(500), wire.short_body(), OK)
    with wire.serve(*steps) as server:
        played = play(client, make(), Ask(server.url), whole=True)
    assert played.statuses == [200]
    assert len(perdure.attempts_of(played.ends[0].response)) == 3
