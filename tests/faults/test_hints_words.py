"""What servers say outright, and what they say in sentences."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults.hints import LONGEST, skew_of
from perdure.faults.said import is_github_limit, limit_scope, should_retry
from perdure.faults.sentences import delay_in_text

NOW = 1_796_046_243.4  # Mon, 30 Nov 2026 13:44:03 GMT


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, None),
        (None, None),
        ({"x-should-retry": "true"}, True),
        ({"X-Should-Retry": "false"}, False),
        ({"x-should-retry": " True "}, True),
        ({"x-should-retry": b"false"}, False),
        ({"x-should-retry": "yes"}, None),
        ({"x-should-retry": "1"}, None),
        ({"x-should-retry": ""}, None),
        ({"x-should-retry": True}, None),
        ({"Stripe-Should-Retry": "true"}, True),
        ({"Stripe-Should-Retry": "false"}, False),
        ({"transient-error": "true"}, True),
        ({"transient-error": "false"}, False),
        ([("x-should-retry", "true"), ("x-should-retry", "false")], False),
        ([("x-should-retry", "maybe"), ("x-should-retry", "true")], True),
        ({"x-should-retry": "true", "Stripe-Should-Retry": "false"}, False),
        # gRFC A6: a pushback that is negative or no number is a no.
        ({"grpc-retry-pushback-ms": "0"}, None),
        ({"grpc-retry-pushback-ms": "1500"}, None),
        ({"grpc-retry-pushback-ms": "-1"}, False),
        ({"grpc-retry-pushback-ms": "abc"}, False),
        ({"grpc-retry-pushback-ms": ""}, False),
        ({"grpc-retry-pushback-ms": "1.5"}, False),
        ({"grpc-retry-pushback-ms": "٣"}, False),
        ({"grpc-retry-pushback-ms": "9" * 5000}, False),
        ({"grpc-retry-pushback-ms": "-1", "x-should-retry": "true"}, False),
        ([("grpc-retry-pushback-ms", b"-1")], False),
        ({"Idempotent-Replayed": "true"}, None),
    ],
    ids=repr,
)
def test_the_word_of_a_server_is_heard_and_a_garbled_one_is_none(headers: object, word: object) -> None:
    assert should_retry(headers) is word


@pytest.mark.parametrize(
    ("headers", "body", "scope"),
    [
        ({}, None, None),
        ({"X-RateLimit-Scope": "user"}, None, "user"),
        ({"X-RateLimit-Scope": "Shared"}, None, "shared"),
        ({"X-RateLimit-Scope": "global"}, None, "global"),
        ({"X-RateLimit-Scope": "galaxy"}, None, None),
        ({"X-RateLimit-Global": "true"}, None, "global"),
        ({"X-RateLimit-Global": "false"}, None, None),
        ({"X-RateLimit-Scope": "shared"}, {"global": True}, "shared"),
        ({}, b'{"retry_after": 1.25, "global": true}', "global"),
        ({}, '{"retry_after": 1.25, "global": false}', None),
        ({}, {"global": "true"}, None),
        (None, [1], None),
        ({}, b"<html>", None),
    ],
    ids=repr,
)
def test_a_limit_of_discord_has_a_scope(headers: object, body: object, scope: str | None) -> None:
    assert limit_scope(headers, body) == scope


GITHUB = {"x-github-request-id": "C0DE:1234"}


@pytest.mark.parametrize(
    ("headers", "body", "is_limit"),
    [
        (GITHUB, None, False),
        ({**GITHUB, "x-ratelimit-remaining": "0"}, None, True),
        ({**GITHUB, "x-ratelimit-remaining": "1"}, None, False),
        ({**GITHUB, "retry-after": "60"}, None, True),
        (GITHUB, b'{"message": "You have exceeded a secondary rate limit."}', True),
        (GITHUB, {"message": "You have triggered an abuse detection mechanism."}, True),
        (GITHUB, {"documentation_url": "https://docs.github.com/rest#about-secondary-rate-limits"}, True),
        (GITHUB, {"message": "Resource not accessible"}, False),
        (GITHUB, {"message": 7}, False),
        ({}, {"message": "You have exceeded a secondary rate limit."}, False),
    ],
    ids=repr,
)
def test_limits_of_github_are_told_from_a_403_that_forbids(
    headers: object, body: object, is_limit: object
) -> None:
    assert is_github_limit(headers, body) is is_limit


@pytest.mark.parametrize(
    ("headers", "skewed"),
    [
        ({}, None),
        (None, None),
        ({"Date": "now"}, None),
        ({"Date": formatdate(NOW, usegmt=True)}, False),
        ({"Date": formatdate(NOW - 300, usegmt=True)}, False),
        ({"Date": formatdate(NOW - 301, usegmt=True)}, True),
        ({"Date": formatdate(NOW + 300, usegmt=True)}, False),
        ({"Date": formatdate(NOW + 301, usegmt=True)}, True),
        ({"Date": formatdate(NOW - 3600, usegmt=True), "Age": "3600"}, False),
    ],
    ids=repr,
)
def test_clocks_more_than_five_minutes_apart_are_told(headers: object, skewed: object) -> None:
    assert skew_of(headers, int(NOW)) is skewed


SENTENCES: list[tuple[str, float | None]] = [
    # Azure SQL, error 40501
    ("The service is currently busy. Retry the request after 10 seconds. Code: 1", 10),
    ("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 20s.", 20),
    ("Please try again in 6m0s.", 360),
    ("Please try again in 17ms.", 0.017),
    ("Please try again in 23h47m36.648s. Visit https://example.com for more", 85_656.648),
    ("please try again in 1m 30s", 90),
    ("Request was throttled. Your rate limit resets in ~10s.", 10),
    ("Too many requests, wait 5 minutes", 300),
    ("wait for 1 minute and 30 seconds", 90),
    ("Retry after: 2 hours, 5 minutes", 7500),
    ("Quota available in about 1.5 hrs", 5400),
    ("RETRY IN 250 MS", 0.25),
    ("resets in 2d", 172_800),
    ("too many certificates: retry after 2026-11-30 13:45:03 UTC: see the documentation", 60),
    ("retry after 2026-11-30T13:45:03Z", 60),
    ("retry after 2026-11-30T13:45:03+00:00.", 60),
    ("retry after 2026-11-30 13:00:00 UTC", 0),
    ("retry after 2026-02-31T13:45:03Z, or try again in 5s", 5),
    ("try again in 9999999999 days", LONGEST),
    # No unit, no topic, or no delay
    ("Retry after 10", None),
    ("retry after 3 attempts", None),
    ("retry after 5 mistakes", None),
    ("finished in 20 s", None),
    ("try again in a few minutes", None),
    ("try again in -5 s", None),
    ("try again in ٣ seconds", None),
    ("", None),
    ("try again" + " " * 60 + "in 5 s", None),
    ("x" * 9000 + " try again in 5s", None),
]


@pytest.mark.parametrize(("text", "delay"), SENTENCES, ids=lambda value: repr(value)[-40:])
def test_a_sentence_gives_its_delay_or_nothing(text: str, delay: float | None) -> None:
    found = delay_in_text(text, int(NOW))
    assert found == (None if delay is None else pytest.approx(delay))


def test_what_is_no_text_gives_nothing() -> None:
    for body in (None, b"try again in 5s", 7):
        assert delay_in_text(body) is None


PIECES = st.lists(
    st.sampled_from(
        [
            "try again",
            "retry",
            "after",
            " in ",
            "~",
            "5",
            "s",
            " ",
            "m",
            "9" * 12,
            "2026-11-30T13:45:03Z",
            ".",
            ",",
        ]
    ),
    max_size=20,
).map("".join)


@given(st.text() | PIECES, st.floats() | st.none())
def test_a_sentence_of_any_kind_gives_what_can_be_waited_for(text: str, now: float | None) -> None:
    delay = delay_in_text(text, now)
    assert delay is None or 0 <= delay <= LONGEST


@given(
    st.dictionaries(
        st.text() | st.sampled_from(["x-should-retry", "grpc-retry-pushback-ms", "date", "age"]),
        st.text() | st.binary() | st.floats() | st.none(),
    ),
    st.text() | st.binary() | st.none(),
)
def test_words_of_any_kind_raise_nothing(headers: dict[str, Any], body: object) -> None:
    assert should_retry(headers) in {True, False, None}
    assert limit_scope(headers, body) in {"user", "shared", "global", None}
    assert is_github_limit({**headers, **GITHUB}, body) in {True, False}
    assert skew_of(headers, NOW) in {True, False, None}
