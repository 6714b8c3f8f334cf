"""Several URLs: asked in order where one fails, raced with a hedge, mixed only if they prove to be the same."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING

import pytest

from perdure.cli.get.fetch import Fetch
from tests.cli.get.files import CONTENT, Step

if TYPE_CHECKING:
    from perdure.cli.get.record import Attempt
    from tests.cli.get.conftest import Get
    from tests.cli.get.files import Files

SHA256 = hashlib.sha256(CONTENT).hexdigest()


def urls(servers: list[Files]) -> list[str]:
    return [one.url() for one in servers]


def asked(servers: list[Files]) -> list[int]:
    return [len(one.seen) for one in servers]


@pytest.mark.parametrize("status", [404, 503])
def test_the_next_one_is_asked_at_once(get: Get, servers: list[Files], status: int) -> None:
    servers[0].always = Step(status=status)
    done = get(*urls(servers))
    assert done.code == 0
    assert done.waits == []
    assert asked(servers) == [1, 1, 0]
    assert f"attempt 1 of 4 at {servers[0].host} got HTTP {status}" in done.err
    assert f"; next is {servers[1].host}" in done.err


def test_a_round_asks_each_that_is_worth_it_once(get: Get, servers: list[Files]) -> None:
    for server, status in zip(servers, (503, 404, 500), strict=True):
        server.always = Step(status=status)
    done = get("--attempts", "3", "--json", *urls(servers))
    assert done.code == 5
    assert asked(servers) == [3, 1, 3], "what is not there is not asked again"
    assert len(done.waits) == 2
    assert [one["round"] for one in done.report["attempts"]] == [1, 1, 1, 2, 2, 3, 3]


def test_when_none_has_it_the_run_ends_at_once(get: Get, servers: list[Files]) -> None:
    for server in servers:
        server.always = Step(status=404)
    done = get(*urls(servers))
    assert done.code == 4
    assert asked(servers) == [1, 1, 1]


def test_one_that_asks_for_time_is_left_alone_while_others_can_be_asked(
    get: Get, servers: list[Files]
) -> None:
    servers[0].always = Step(status=429, headers={"Retry-After": "200"})
    servers[1].script = [Step(status=503)]
    servers[2].script = [Step(status=503)]
    done = get("--wait", "const:1s", *urls(servers))
    assert done.code == 0
    assert done.waits == [1]
    assert asked(servers) == [1, 2, 1]


def test_one_that_breaks_off_is_asked_to_go_on(get: Get, servers: list[Files]) -> None:
    """It has delivered: another copy may be another content."""
    servers[1].script = [Step(cut=1000)]
    servers[0].always = Step(status=404)
    assert get(*urls(servers)).code == 0
    assert asked(servers) == [1, 2, 0]
    assert get.file() == CONTENT


def test_the_same_strong_entity_tag_lets_another_one_go_on(get: Get, servers: list[Files]) -> None:
    servers[0].script = [Step(cut=1000)]
    servers[0].always = Step(status=503)
    assert get(*urls(servers)).code == 0
    assert servers[1].ranges == ["bytes=1000-"]
    assert servers[1].seen[0].headers["if-range"] == '"v1"'
    assert get.file() == CONTENT


def test_another_entity_tag_starts_again(get: Get, servers: list[Files]) -> None:
    servers[0].script = [Step(cut=1000)]
    servers[0].always = Step(status=503)
    servers[1].always = Step(etag='"other"')
    servers[1].content = CONTENT[::-1]
    assert get(*urls(servers)).code == 0
    assert get.file() == CONTENT[::-1]


def test_a_date_proves_nothing_about_another_copy(get: Get, servers: list[Files]) -> None:
    dates = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"}
    servers[0].script = [Step(cut=1000, etag=None, headers=dates)]
    servers[0].always = Step(status=503)
    assert get(*urls(servers)).code == 0
    assert servers[1].ranges == [None]


def test_a_checksum_lets_another_one_go_on(get: Get, servers: list[Files]) -> None:
    servers[0].script = [Step(cut=1000, etag=None)]
    servers[0].always = Step(status=503)
    servers[1].always = Step(etag='"other"')
    assert get("--sha256", SHA256, *urls(servers)).code == 0
    assert servers[1].ranges == ["bytes=1000-"]
    assert "if-range" not in servers[1].seen[0].headers
    assert get.file() == CONTENT


def test_one_with_a_wrong_copy_is_passed_over(get: Get, servers: list[Files]) -> None:
    servers[0].content = CONTENT[::-1]
    done = get("--sha256", SHA256, *urls(servers))
    assert done.code == 0
    assert asked(servers) == [2, 1, 0]
    assert get.file() == CONTENT


def test_a_later_run_may_go_on_from_another_copy(get: Get, servers: list[Files]) -> None:
    servers[0].script = [Step(cut=1000)]
    assert get("--attempts", "1", "-o", "x", servers[0].url()).code == 5
    assert get("-o", "x", servers[1].url("/elsewhere")).code == 0
    assert servers[1].ranges == ["bytes=1000-"]
    assert get.file("x") == CONTENT


# Hedging


def test_without_an_answer_the_next_one_is_asked_too(get: Get, servers: list[Files]) -> None:
    servers[0].always = Step(hold=threading.Event())
    done = get("--hedge=20ms", "--json", *urls(servers[:2]))
    assert done.code == 0
    assert get.file() == CONTENT
    assert asked(servers) == [1, 1, 0]
    assert done.waits == []
    first, second = sorted(done.report["attempts"], key=lambda one: int(one["attempt"]))
    assert (first["result"], first["hedge"]) == ("lost", False)
    assert (second["result"], second["hedge"]) == ("ok", True)


def test_one_that_answers_in_time_is_alone(get: Get, servers: list[Files]) -> None:
    assert get("--hedge=20s", *urls(servers)).code == 0
    assert asked(servers) == [1, 0, 0]


def test_the_hedge_fails_and_the_first_one_wins(
    get: Get, servers: list[Files], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is no delivery: the race goes on without the one that refused."""
    go_on = threading.Event()
    servers[0].always = Step(hold=go_on)
    servers[1].always = Step(status=404)
    real = Fetch.over

    def over(fetch: Fetch, attempt: Attempt) -> None:
        real(fetch, attempt)
        go_on.set()

    monkeypatch.setattr(Fetch, "over", over)
    done = get("--hedge=10ms", "--json", *urls(servers[:2]))
    assert done.code == 0
    assert [one["result"] for one in done.report["attempts"]] == ["ok", "failed for good"]
    assert f"at {servers[1].host} got HTTP 404 Not Found" in done.err


def test_when_all_racers_fail_a_wait_follows(get: Get, servers: list[Files]) -> None:
    for server in servers:
        server.script = [Step(status=503)]
    done = get("--hedge=0", *urls(servers))
    assert done.code == 0
    assert len(done.waits) == 1
    assert get.file() == CONTENT


def test_hedge_without_a_value_does_not_eat_a_url(get: Get, servers: list[Files]) -> None:
    assert get("--hedge", *urls(servers)).code == 0
