"""What each provider sends, and the delay it means; the clock stands at the moment that `NOW` names."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from perdure.faults.hints import LONGEST, asked_delay
from perdure.hints import Hint, hint_of

NOW = 1_796_046_243.4  # Mon, 30 Nov 2026 13:44:03 GMT
DATE = formatdate(NOW, usegmt=True)
AT = int(NOW)

TYPES = "type.googleapis.com/google.rpc."


def retry_info(delay: object, **more: object) -> dict[str, Any]:
    quota = {"@type": f"{TYPES}QuotaFailure", "violations": [{"quotaId": "RequestsPerMinute"}]}
    details = [quota, {"@type": f"{TYPES}RetryInfo", "retryDelay": delay}]
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details, **more}}


def shopify(requested: object, available: object, rate: object, code: str = "THROTTLED") -> dict[str, Any]:
    throttle = {"maximumAvailable": 1000.0, "currentlyAvailable": available, "restoreRate": rate}
    cost = {"requestedQueryCost": requested, "actualQueryCost": None, "throttleStatus": throttle}
    errors = [{"message": "Throttled", "extensions": {"code": code}}]
    return {"errors": errors, "extensions": {"cost": cost}}


SECONDARY = {
    "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    "documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
}
GITHUB = {"X-GitHub-Request-Id": "C0DE:1234"}
Case = tuple[str, int, dict[str, str], Any, float | None, str]

ANSWERS: list[Case] = [
    # what, status, headers, body, delay, source
    ("standard", 429, {"Retry-After": "120"}, None, 120, "retry-after"),
    ("cloudflare", 429, {"Retry-After": "30"}, "error code: 1015", 30, "retry-after"),
    ("cloudflare, as a document", 429, {}, {"error_code": 1015, "retry_after": 30}, 30, "retry_after"),
    ("cloudflare, origin down", 521, {}, None, None, ""),
    ("slack", 429, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}, 30, "retry-after"),
    (
        "shopify rest",
        429,
        {"Retry-After": "2.0", "X-Shopify-Shop-Api-Call-Limit": "40/40"},
        None,
        2,
        "retry-after",
    ),
    ("let's encrypt", 429, {"Retry-After": "9999999999"}, None, 9_999_999_999, "retry-after"),
    ("openai", 429, {"retry-after-ms": "4321", "retry-after": "5"}, None, 4.321, "retry-after-ms"),
    ("azure", 429, {"x-ms-retry-after-ms": "250", "Retry-After": "1"}, None, 0.25, "x-ms-retry-after-ms"),
    ("azure openai", 429, {"retry-after-ms": "250", "Retry-After": "1"}, None, 0.25, "retry-after-ms"),
    ("aws", 503, {"x-amz-retry-after": "1500"}, None, 1.5, "x-amz-retry-after"),
    ("aws, invalid", 503, {"x-amz-retry-after": "soon"}, None, None, ""),
    ("grpc", 503, {"grpc-retry-pushback-ms": "1500"}, None, 1.5, "grpc-retry-pushback-ms"),
    ("grpc, at once", 503, {"grpc-retry-pushback-ms": "0"}, None, None, ""),
    ("grpc, do not", 503, {"grpc-retry-pushback-ms": "-1"}, None, None, ""),
    ("anthropic overloaded", 529, {}, {"type": "error", "error": {"type": "overloaded_error"}}, None, ""),
    # Bodies
    ("gemini", 429, {}, retry_info("38s"), 38, "RetryInfo"),
    ("gemini, fraction", 429, {"Retry-After": "60"}, retry_info("36.429760048s"), 36.429760048, "RetryInfo"),
    ("gemini, stream", 429, {}, [retry_info("2.5s")], 2.5, "RetryInfo"),
    (
        "google, plain",
        503,
        {},
        {"details": [{"@type": "..google.rpc.RetryInfo", "retryDelay": "2.5s"}]},
        2.5,
        "RetryInfo",
    ),
    ("google, fields", 503, {}, retry_info({"seconds": "2", "nanos": 500_000_000}), 2.5, "RetryInfo"),
    ("google, negative", 503, {}, retry_info("-3s"), None, ""),
    ("google, no duration", 503, {}, retry_info("38"), None, ""),
    ("discord", 429, {"Retry-After": "65"}, {"retry_after": 64.57, "global": False}, 64.57, "retry_after"),
    ("discord, old", 429, {"Retry-After": "65"}, {"retry_after": 64_570}, 64.57, "retry_after"),
    ("discord, no header", 429, {}, {"retry_after": 1.25}, 1.25, "retry_after"),
    ("discord, two days", 429, {"Retry-After": "172800"}, None, 172_800, "retry-after"),
    ("telegram", 429, {}, {"ok": False, "parameters": {"retry_after": 35}}, 35, "retry_after"),
    ("cosmos", 429, {}, {"retryAfterInMs": 250}, 0.25, "retryAfterInMs"),
    ("replicate", 429, {}, {"detail": "resets in ~10s", "retry_after": 10}, 10, "retry_after"),
    ("hugging face", 503, {}, {"error": "Model is loading", "estimated_time": 20.5}, 20.5, "estimated_time"),
    ("a task with an estimate", 503, {}, {"estimated_time": 20.5}, None, ""),
    ("shopify graphql", 429, {}, shopify(752, 666, 50), 1.72, "throttleStatus"),
    ("shopify, room again", 429, {}, shopify(52, 666, 50), None, ""),
    ("shopify, never fits", 429, {}, shopify(1752, 666, 50), None, ""),
    ("shopify, no rate", 429, {}, shopify(752, 666, 0), None, ""),
    ("shopify, another error", 429, {}, shopify(752, 666, 50, "ACCESS_DENIED"), None, ""),
    # Reset headers
    (
        "openai, tokens used up",
        429,
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-requests": "23h47m36.648s",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        None,
        360,
        "x-ratelimit-reset-tokens",
    ),
    (
        "openai, unknown which",
        429,
        {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "1m30s"},
        None,
        90,
        "x-ratelimit-reset-tokens",
    ),
    (
        "openai, both used up",
        429,
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-requests": "2m30.5s",
            "x-ratelimit-reset-tokens": "17ms",
        },
        None,
        150.5,
        "x-ratelimit-reset-requests",
    ),
    (
        "openai, none used up",
        429,
        {"x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "6m0s"},
        None,
        None,
        "",
    ),
    (
        "anthropic",
        429,
        {
            "anthropic-ratelimit-requests-remaining": "12",
            "anthropic-ratelimit-requests-reset": "2026-11-30T14:44:03Z",
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": "2026-11-30T13:44:33Z",
            "Date": DATE,
        },
        None,
        30,
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic, in two days",
        429,
        {
            "anthropic-ratelimit-tokens-remaining": "0",
            "anthropic-ratelimit-tokens-reset": "2026-12-02T13:44:03+00:00",
        },
        None,
        172_800,
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        "anthropic, retry-after first",
        429,
        {
            "retry-after": "7",
            "anthropic-ratelimit-tokens-remaining": "0",
            "anthropic-ratelimit-tokens-reset": "2026-11-30T13:44:33Z",
        },
        None,
        7,
        "retry-after",
    ),
    (
        "github",
        403,
        {**GITHUB, "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(AT + 900)},
        None,
        900,
        "x-ratelimit-reset",
    ),
    (
        "github, by its Date",
        429,
        {
            **GITHUB,
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": str(AT - 100),
            "Date": formatdate(NOW - 160, usegmt=True),
        },
        None,
        60,
        "x-ratelimit-reset",
    ),
    (
        "github, over",
        403,
        {**GITHUB, "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1372700873"},
        None,
        None,
        "",
    ),
    ("github secondary", 403, {**GITHUB, "Retry-After": "60"}, SECONDARY, 60, "retry-after"),
    ("github secondary, silent", 403, {**GITHUB, "x-ratelimit-remaining": "42"}, SECONDARY, 60, "github"),
    ("github, no reset", 403, {**GITHUB, "x-ratelimit-remaining": "0"}, None, None, ""),
    ("github secondary, 429", 429, {**GITHUB, "x-ratelimit-remaining": "42"}, None, 60, "github"),
    (
        "github, forbidden",
        403,
        {**GITHUB, "x-ratelimit-remaining": "42"},
        {"message": "Must have admin rights"},
        None,
        "",
    ),
    ("github, as seen", 429, {**GITHUB, "Retry-After": "1m0s"}, None, 60, "retry-after"),
    ("another's 403", 403, {"Retry-After": "60"}, SECONDARY, None, ""),
    (
        "discord, headers",
        429,
        {
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset-After": "1.25",
            "X-RateLimit-Reset": f"{AT + 900}.123",
            "X-RateLimit-Bucket": "abcd1234",
        },
        None,
        1.25,
        "x-ratelimit-reset-after",
    ),
    (
        "discord, moment",
        429,
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{AT + 9}.25"},
        None,
        9.25,
        "x-ratelimit-reset",
    ),
    (
        "twitter",
        429,
        {"x-rate-limit-remaining": "0", "x-rate-limit-reset": str(AT + 90_000)},
        None,
        90_000,
        "x-rate-limit-reset",
    ),
    (
        "draft 11",
        429,
        {"RateLimit": '"default";r=0;t=12', "RateLimit-Policy": '"default";q=100;w=60'},
        None,
        12,
        "ratelimit",
    ),
    (
        "draft 11, several",
        429,
        {"RateLimit": '"a";r=0;t=12, "b, c;r=0;t=99";r=0;t=30,"d";r=5;t=900'},
        None,
        30,
        "ratelimit",
    ),
    ("draft 11, a key", 429, {"RateLimit": '"a";pk=:dGVzdA==:;r=0;t=12'}, None, 12, "ratelimit"),
    ("draft 11, room", 429, {"RateLimit": '"default";r=50;t=12'}, None, None, ""),
    ("draft 11, no count", 429, {"RateLimit": '"default";t=12'}, None, 12, "ratelimit"),
    ("draft 11, a week", 429, {"RateLimit": '"default";r=0;t=604800'}, None, 604_800, "ratelimit"),
    ("draft 11, never a moment", 429, {"RateLimit": f'"default";r=0;t={AT}'}, None, AT, "ratelimit"),
    ("draft 11, not closed", 429, {"RateLimit": '"default;r=0;t=12'}, None, None, ""),
    ("draft 07", 429, {"RateLimit": "limit=100, remaining=0, reset=42"}, None, 42, "ratelimit"),
    ("draft 07, room", 429, {"RateLimit": "limit=100, remaining=1, reset=42"}, None, None, ""),
    (
        "draft 06",
        429,
        {"RateLimit-Limit": "100", "RateLimit-Remaining": "0", "RateLimit-Reset": "42"},
        None,
        42,
        "ratelimit-reset",
    ),
    (
        "gitlab",
        429,
        {"RateLimit-Remaining": "0", "RateLimit-Reset": str(AT + 42)},
        None,
        42,
        "ratelimit-reset",
    ),
    (
        "reddit",
        429,
        {"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "42"},
        None,
        42,
        "x-ratelimit-reset",
    ),
    (
        "kong",
        429,
        {"X-RateLimit-Remaining-Minute": "0", "X-RateLimit-Reset-Minute": "42"},
        None,
        42,
        "x-ratelimit-reset-minute",
    ),
]


@pytest.mark.parametrize(
    ("status", "headers", "body", "delay", "source"),
    [case[1:] for case in ANSWERS],
    ids=[case[0] for case in ANSWERS],
)
def test_an_answer_asks_for_its_delay(
    status: int, headers: dict[str, str], body: Any, delay: float | None, source: str
) -> None:
    hint = hint_of(headers, status=status, body=body, now=NOW)
    assert hint == (None if delay is None else Hint(pytest.approx(delay), source))


@pytest.mark.parametrize(
    "case", [case for case in ANSWERS if case[1] in {429, 503}], ids=lambda case: case[0]
)
@pytest.mark.parametrize("status", [200, 202, 304, 400, 401, 403, 404, 409, 422, 501, 505])
def test_no_header_and_no_body_counts_under_a_status_that_is_not_for_waiting(case: Case, status: int) -> None:
    """azure-sdk-for-python#10778: a Retry-After alone made any status one to retry."""
    headers = {name: value for name, value in case[2].items() if name not in GITHUB}
    assert asked_delay(headers, NOW, status=status, body=case[3]) is None


def test_retry_after_counts_under_the_statuses_that_are_and_no_other() -> None:
    final = {501, 505, 506, 508, 510, 511, 525, 526, 540, 561}
    asking = {408, 413, 420, 423, 425, 429, 460} | set(range(500, 600)) - final
    redirects = set(range(300, 400)) - {304}
    for status in range(700):
        hint = hint_of({"Retry-After": "5"}, status=status)
        assert hint == (Hint(5, "retry-after") if status in asking | redirects else None), status


@pytest.mark.parametrize("status", [307, 408, 413, 500, 502, 503, 507, 529])
def test_reset_headers_count_only_where_a_limit_was_met(status: int) -> None:
    """The last request that a bucket had room for may fail as any other, and then it may have acted."""
    assert hint_of({"RateLimit": '"default";r=0;t=12'}, status=status) is None
    assert hint_of({"RateLimit": '"default";r=0;t=12'}, status=429) == Hint(12, "ratelimit")
    assert hint_of({"RateLimit": '"default";r=0;t=12'}) == Hint(12, "ratelimit")


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ('"a\\"b;r=0;t=99";r=0;t=12', 12),
        ('"a\\\\";r=0;t=12', 12),
        ("default;r=0;t=12", 12),
        ('"a" ; r=0 ; t=12', 12),
        ('"a";R=0;T=12', 12),
        ('"a";r=0;t=12.5', 12.5),
        ('"a";r=0;t=-12', None),
        ('"a";r=0;t=soon', None),
        ('"a";r=0;t', None),
        ('"a";r=0', None),
        (";;,,==", None),
        ('"a";r=0;t=12' + " " * 8192, None),
    ],
)
def test_the_structured_field_is_split_outside_of_quotes(value: str, delay: float | None) -> None:
    assert asked_delay({"RateLimit": value}, status=429) == delay


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("42", 42),
        ("0.5", 0.5),
        ("42s", 42),
        ("1m", 60),
        ("2026-11-30T13:45:03Z", 60),
        ("2026-11-30T13:45:03.500Z", 60.5),
        ("2026-11-30 13:45:03Z", 60),
        ("2026-11-30T15:45:03+02:00", 60),
        ("2026-11-30T13:44:60Z", 56),
        (formatdate(NOW + 60, usegmt=True), 60),
        (str(AT + 60), 60),
        (f"{AT + 60}.5", 60.5),
        (str((AT + 60) * 1000), 60),
        ("86400", 86_400),
        ("86401", None),
        (str(AT + 86_401), None),
        (str(AT - 1), None),
        ("2026-11-30T13:44:02Z", None),
        ("2026-11-30T13:45:03", None),
        ("2026-02-30T13:45:03Z", None),
        ("2026-11-30T13:45:03+99:00", None),
        ("0001-01-01T00:00:00+23:00", None),
        ("9" * 40, None),
        ("tomorrow", None),
        ("-5", None),
        ("nan", None),
        ("", None),
        ("30, 60", 60),
        ("x, 60", 60),
    ],
)
def test_an_unknown_provider_is_understood_by_the_shape_of_its_value(value: str, delay: float | None) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": value}
    assert hint_of(headers, status=429, now=NOW) == (
        None if delay is None else Hint(delay, "x-ratelimit-reset")
    )


@pytest.mark.parametrize(
    ("value", "delay"),
    [("1000000000", 1e9), ("1000000001", 0.0), ("1000000000000", LONGEST), ("1000000000001", 0.0)],
)
def test_a_number_is_a_moment_above_a_billion_and_in_milliseconds_above_a_trillion(
    value: str, delay: float
) -> None:
    headers = {"x-rate-limit-remaining": "0", "x-rate-limit-reset": value}
    assert asked_delay(headers, NOW, status=429) == delay


def test_the_bucket_has_a_name_in_a_time_to_the_reset_as_well() -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-after-tokens": "7"}
    assert hint_of(headers) == Hint(7, "x-ratelimit-reset-after-tokens")


@pytest.mark.parametrize("name", ["x-ratelimit-reset", "x-ratelimit-reset-after"])
def test_a_reset_in_no_time_asks_for_no_more_delay(name: str) -> None:
    assert asked_delay({"x-ratelimit-remaining": "0", name: "0"}) == 0.0
    assert asked_delay({"RateLimit": '"a";r=0;t=0'}) == 0.0


def test_a_field_counts_up_to_a_bound_of_its_length() -> None:
    for name, value, most in (("RateLimit", '"a";r=0;t=12', 8192), ("RateLimit-Reset", "12", 8192)):
        for length, delay in ((most, 12), (most + 1, None)):
            headers = {"RateLimit-Remaining": "0", name: value.rjust(length)}
            assert asked_delay(headers, NOW, status=429) == delay


def test_a_moment_without_a_date_is_measured_from_the_clock_and_never_early() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(AT + 10)}
    assert asked_delay(headers, NOW) == 10
    assert asked_delay({**headers, "Date": formatdate(NOW - 50, usegmt=True)}, NOW) == 60


def test_a_known_bucket_that_has_room_again_asks_for_no_more_delay() -> None:
    reset = {
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-30T13:00:00Z",
    }
    assert asked_delay(reset, NOW, status=429) == 0.0
    assert hint_of(reset, status=429, now=NOW) is None


@pytest.mark.parametrize("remaining", ["1", "5000", "0.5", "100, 7"])
def test_a_bucket_that_is_not_used_up_gives_no_delay(remaining: str) -> None:
    for status in (429, 503, None):
        for name, value in {"x-ratelimit-reset": "42", "x-ratelimit-reset-after": "42"}.items():
            assert hint_of({"x-ratelimit-remaining": remaining, name: value}, status=status) is None


@pytest.mark.parametrize("remaining", [None, "", "many", "nan", "0x0"])
def test_a_bucket_that_does_not_say_how_much_is_left_counts_where_a_limit_was_met_only(
    remaining: str | None,
) -> None:
    headers = {"x-ratelimit-reset": "42"} | (
        {} if remaining is None else {"x-ratelimit-remaining": remaining}
    )
    assert hint_of(headers, status=429) == hint_of(headers, status=420) == Hint(42, "x-ratelimit-reset")
    assert hint_of(headers, status=503) is None
    assert hint_of(headers) is None


@pytest.mark.parametrize("remaining", ["-3", "0", "000", "0.0", "5, 0"])
def test_a_bucket_at_or_below_zero_is_used_up(remaining: str) -> None:
    headers = {"x-ratelimit-reset": "42", "x-ratelimit-remaining": remaining}
    assert hint_of(headers) == Hint(42, "x-ratelimit-reset")


def test_an_invalid_time_to_the_reset_leaves_the_moment_of_the_reset() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "-1", "x-ratelimit-reset": "42"}
    assert hint_of(headers) == Hint(42, "x-ratelimit-reset")


@pytest.mark.parametrize(
    "name",
    [
        *("ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset-remaining", "x-corporate-limit-reset"),
        *("x-reset", "ratelimit-", "x-" + "a" * 200 + "-ratelimit-reset"),
    ],
)
def test_other_fields_are_no_buckets(name: str) -> None:
    assert hint_of({name: "42", "x-ratelimit-remaining": "0"}, status=429) is None


def test_an_answer_from_a_cache_has_used_up_its_reset() -> None:
    headers = {"RateLimit": '"default";r=0;t=12'}
    assert asked_delay({**headers, "Age": "5"}, NOW, status=429) == 12
    assert asked_delay({**headers, "Age": "12"}, NOW, status=429) == 0.0
    at_once = {**headers, "Age": "1", "Date": formatdate(NOW, usegmt=True)}
    assert asked_delay(at_once, AT + 11, status=429) == 12
    assert asked_delay(at_once, AT + 12, status=429) == 0.0


def test_hints_are_values() -> None:
    hint = Hint(1.5, "retry-after")
    assert hint == Hint(1.5, "retry-after")
    assert len({hint, Hint(1.5, "retry-after"), Hint(LONGEST, "retry-after")}) == 2
    with pytest.raises(AttributeError):
        hint.delay = 2.0  # type: ignore[misc]


def test_nothing_at_all_asks_for_nothing() -> None:
    assert hint_of() is None
    assert hint_of({}, status=429, body=b"") is None
