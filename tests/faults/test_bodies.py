"""What the bodies and headers of error answers say, and that their codes outrank the status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.faults import FaultKind, hints
from perdure.faults.codes import CODES, EXHAUSTED, NO_MONEY, SKEW, plain
from perdure.faults.documents import LIMIT, load, text_of
from perdure.faults.http import fault_of_status

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


def openai(code: str, kind: str = "x") -> dict[str, Any]:
    return {"error": {"message": "m", "type": kind, "param": None, "code": code}}


def anthropic(kind: str, code: str | None = None) -> dict[str, Any]:
    details = {} if code is None else {"details": {"error_code": code}}
    return {"type": "error", "error": {"type": kind, "message": "m", **details}, "request_id": "r"}


def google(status: int, *details: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    errors = [] if reason is None else [{"domain": "usageLimits", "reason": reason}]
    return {
        "error": {"code": status, "message": "m", "status": "X", "details": list(details), "errors": errors}
    }


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
PER_MINUTE = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}],
}


def aws(code: str) -> dict[str, Any]:
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "m"}


def s3(code: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>'


def query_api(code: str) -> str:
    return (
        f"<ErrorResponse xmlns='urn:x'><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>"
    )


@pytest.mark.parametrize(
    ("status", "body", "kind", "hint"),
    [
        # No money: B089.
        (429, openai("insufficient_quota", "insufficient_quota"), P, None),
        (429, openai("insufficient_quota")["error"], P, None),  # what openai keeps of it
        (429, openai("billing_hard_limit_reached"), P, None),
        (429, openai("credit_balance_exhausted"), P, None),
        (429, anthropic("rate_limit_error", "contract_spend_limit_reached"), P, None),
        (429, anthropic("rate_limit_error", "enforced_spend_limit_reached"), P, None),
        (429, {"error": {"type": "exceeded_current_quota_error"}}, P, None),
        (500, openai("insufficient_quota"), P, None),
        # A rate.
        (429, openai("rate_limit_exceeded", "tokens"), R, None),
        (429, anthropic("rate_limit_error"), R, None),
        (429, anthropic("rate_limit_error", "ramp_limit_exceeded"), R, None),
        (400, anthropic("overloaded_error"), R, None),
        (500, anthropic("overloaded_error"), R, None),
        (503, openai("slow_down"), R, None),
        (400, {"error": "slow_down"}, R, None),  # RFC 8628
        (400, {"error": "temporarily_unavailable"}, T, None),  # RFC 6749
        # A day's quota, with and without a word on when: B090.
        (429, google(429, PER_DAY), P, None),
        (429, google(429, PER_DAY, retry_info("36s")), R, 36.0),
        (429, google(429, PER_DAY, retry_info("36.429760048s")), R, 36.429760048),
        (429, google(429, PER_DAY, retry_info("43200s")), P, None),
        (429, google(429, PER_MINUTE), R, None),
        (429, google(429, PER_MINUTE, retry_info("2.5s")), R, 2.5),
        (429, [google(429, PER_DAY)], P, None),
        (429, [google(429, PER_DAY, retry_info("36s"))], R, 36.0),
        # Google says 403 for its rates.
        (403, google(403, reason="rateLimitExceeded"), R, None),
        (403, google(403, reason="userRateLimitExceeded"), R, None),
        (403, google(403, {"reason": "RATE_LIMIT_EXCEEDED"}), R, None),
        (403, google(403, reason="dailyLimitExceeded"), P, None),
        (403, google(403, reason="quotaExceeded"), P, None),
        (403, google(403, reason="forbidden"), P, None),
        # AWS says 400 for everything.
        (400, aws("ThrottlingException"), R, None),
        (400, aws("ProvisionedThroughputExceededException"), R, None),
        (400, aws("RequestLimitExceeded"), R, None),
        (400, aws("ValidationException"), P, None),
        (400, aws("ServiceQuotaExceededException"), P, None),
        (400, aws("ExpiredTokenException"), S, None),
        (400, s3("RequestTimeout"), T, None),
        (503, s3("SlowDown"), R, None),
        (500, s3("InternalError"), A, None),
        (403, s3("AccessDenied"), P, None),
        (403, s3("RequestTimeTooSkewed"), S, None),
        (400, query_api("Throttling"), R, None),
        (400, query_api("PriorRequestNotComplete"), R, None),
        (
            503,
            "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>",
            R,
            None,
        ),
        (400, "<a:Error xmlns:a='x'><a:Code>\n SlowDown\n</a:Code></a:Error>", R, None),
        # Azure, Stripe, Salesforce.
        (503, {"error": {"code": "ServerBusy"}}, R, None),
        (500, {"error": {"code": "X", "innererror": {"code": "TooManyRequests"}}}, R, None),
        (409, {"error": {"type": "invalid_request_error", "code": "idempotency_key_in_use"}}, N, None),
        (429, {"error": {"type": "invalid_request_error", "code": "lock_timeout"}}, T, None),
        (400, {"error": {"type": "idempotency_error"}}, P, None),
        (403, [{"errorCode": "REQUEST_LIMIT_EXCEEDED"}], P, None),
        (400, [{"errorCode": "UNABLE_TO_LOCK_ROW"}], T, None),
        # What no code changes.
        (401, openai("invalid_api_key"), P, None),
        (404, openai("model_not_found"), P, None),
        (400, openai("context_length_exceeded"), P, None),
        (500, openai("server_error"), A, None),
        (422, {"kind": "Status", "status": "Failure", "reason": "Invalid"}, P, None),  # kubernetes
        (400, {"kind": "Status", "status": "Failure", "reason": "Timeout"}, P, None),
        # Delays in the body.
        (429, {"message": "m", "retry_after": 1.25, "global": False}, R, 1.25),
        (503, {"error": "m", "estimated_time": 20.0}, R, 20.0),
        (404, {"message": "m", "retry_after": 1.25}, P, None),
        # Cloudflare's inner codes.
        (530, "error code: 1016", T, None),
        (530, "error code: 1033", T, None),
        (530, '<span class="cf-error-code">1001</span>', T, None),
        (530, "error code: 1000", P, None),
        (530, "error code: 1999", A, None),
        (530, "", A, None),
        (520, "error code: 1101", A, None),
        (429, "error code: 1015", R, None),
        (403, "error code: 1020", P, None),
        (403, {"cloudflare_error": True, "error_code": 1015}, R, None),
        (500, {"code": "1016"}, A, None),  # somebody else's number
    ],
)
def test_codes_outrank_the_status(status: int, body: Any, kind: FaultKind, hint: float | None) -> None:
    """B089, B090, and the tables of AWS, Google and the model providers."""
    raw = body if isinstance(body, str) else json.dumps(body)
    for given_body in (
        body,
        raw,
        raw.encode(),
        "\ufeff" + raw,
        raw.encode("utf-8-sig"),
        raw.encode("utf-16"),
    ):
        fault = fault_of_status(status, {}, None, given_body)
        assert (fault.kind, fault.hint) == (kind, hint), given_body
        assert fault.why.startswith(f"HTTP {status}")


def test_the_phrase_names_the_code() -> None:
    assert fault_of_status(429, None, None, openai("insufficient_quota")).why == (
        "HTTP 429 Too Many Requests: insufficient_quota"
    )
    assert fault_of_status(400, None, None, aws("ThrottlingException")).why == (
        "HTTP 400 Bad Request: ThrottlingException"
    )
    assert fault_of_status(530, None, None, "error code: 1016").why == "HTTP 530 Origin DNS Error: 1016"


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"X-Amzn-ErrorType": "ThrottlingException:http://internal.example/coral/"}, 400, R),
        ({"x-ms-error-code": "ServerBusy"}, 503, R),
        ({"x-ms-error-code": "BlobNotFound"}, 404, P),
    ],
)
def test_codes_in_headers_count_where_there_is_no_body(
    headers: dict[str, str], status: int, kind: FaultKind
) -> None:
    assert fault_of_status(status, headers).kind is kind


def test_no_money_is_not_cured_by_a_header_but_by_the_bodys_own_word() -> None:
    """B089, B090: gateways put Retry-After on every 429; a delay in the same body is meant."""
    broke = {"error": {"code": "insufficient_quota"}}
    assert fault_of_status(429, {"Retry-After": "20"}, None, broke).kind is P
    soon = {"error": {"code": "insufficient_quota", "details": [retry_info("20s")]}}
    fault = fault_of_status(429, {}, None, soon)
    assert (fault.kind, fault.hint) == (R, 20.0)


def test_a_used_up_quota_that_is_back_within_the_hour_is_a_throttle() -> None:
    used_up = {"error": {"errors": [{"reason": "quotaExceeded"}]}}
    soon = fault_of_status(403, {"Retry-After": "30"}, None, used_up)
    assert (soon.kind, soon.hint) == (R, 30.0)
    assert fault_of_status(403, {"Retry-After": "86400"}, None, used_up).kind is P


def test_what_bars_a_retry_counts_before_what_allows_it() -> None:
    both = {"error": {"type": "rate_limit_error", "code": "insufficient_quota"}}
    assert fault_of_status(429, None, None, both).kind is P
    assert fault_of_status(429, {"x-should-retry": "true"}, None, both).kind is T


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"])
@pytest.mark.parametrize(
    ("date", "kind"),
    [
        ("Mon, 30 Nov 2026 12:00:00 GMT", P),
        ("Mon, 30 Nov 2026 12:04:59 GMT", P),
        ("Mon, 30 Nov 2026 12:05:02 GMT", S),
        ("Mon, 30 Nov 2026 11:54:00 GMT", S),
        ("yesterday", P),
        (None, P),
    ],
)
def test_a_bad_signature_is_a_wrong_clock_only_if_the_date_shows_one(
    monkeypatch: pytest.MonkeyPatch, code: str, date: str | None, kind: FaultKind
) -> None:
    """B099."""
    monkeypatch.setattr(hints, "wall_clock", lambda: 1_796_040_000.0)
    headers = {} if date is None else {"Date": date}
    assert fault_of_status(403, headers, None, aws(code)).kind is kind


@pytest.mark.parametrize(
    "text",
    [
        *("Overloaded", "overloaded.", "Rate limit exceeded, try again", "insufficient_quota!", "", "quota"),
        *("x" * 300, "ThrottlingException\n", "\u0661\u0661"),
    ],
)
def test_words_for_people_say_nothing(text: str) -> None:
    """B097: codes and classes only; a message may lose its full stop, or be in another language."""
    for body in (
        {"message": text},
        {"error": {"message": text}},
        text,
        {"error": {"code": "x", "detail": text}},
    ):
        assert fault_of_status(400, None, None, body).kind is P
        assert fault_of_status(400, None, None, body).why == "HTTP 400 Bad Request"


def test_codes_are_compared_without_case_separators_and_endings() -> None:
    forms = (
        "Throttling",
        "ThrottlingException",
        "THROTTLING",
        "throttling_error",
        "ns.v1#Throttling",
        "Throttling:u",
    )
    assert {plain(form) for form in forms} == {"throttling"}
    assert [plain(none) for none in (None, 7, "", "x", "a b", "a\nb", "\u00e9t\u00e9", "a" * 201)] == [""] * 8


def test_no_code_is_in_two_tables() -> None:
    tables = [set(CODES), NO_MONEY, EXHAUSTED, SKEW]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert "" not in set().union(*tables)


# -- hostile bodies ---------------------------------------------------------------------------------------

BOMBS = [
    b"[" * LIMIT,
    b'{"error":' * 7_000,
    b'{"code":' + b"9" * 60_000 + b"}",
    b'{"code":1e999999}',
    b"<Error><Code>" * 5_000,
    b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><Error><Code>&b;</Code></Error>",
    b"\xff\xfe" + b"\xd8\x00" * 30_000,
    b"\x00" * LIMIT,
    b'"' * LIMIT,
    b"{" + b'"error code: 1',
    b"error code: 1" * 5_000,
]


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_a_bomb_is_an_answer_like_any_other(bomb: bytes) -> None:
    for body in (bomb, bomb.decode("latin-1"), bytearray(bomb)):
        assert fault_of_status(500, {}, None, body).kind is A


def test_a_number_of_thousands_of_digits_does_not_hide_a_code() -> None:
    body = b'{"id": ' + b"9" * 5_000 + b', "error": {"code": "insufficient_quota"}}'
    assert fault_of_status(429, {}, None, body).kind is P


def test_more_than_the_limit_is_not_read() -> None:
    body = json.dumps({"pad": "x" * LIMIT, "error": {"code": "insufficient_quota"}})
    assert load(body) is None
    assert len(text_of(body)) == len(text_of(body.encode())) == LIMIT
    assert fault_of_status(429, {}, None, body).kind is R
    assert fault_of_status(503, {}, None, s3("SlowDown") + " " * LIMIT).kind is R


def test_a_document_that_holds_itself_is_no_hang() -> None:
    loop: dict[str, Any] = {}
    loop["error"] = loop["errors"] = loop["details"] = loop
    assert fault_of_status(500, {}, None, loop).kind is A
    ring: list[Any] = []
    ring.append(ring)
    assert fault_of_status(500, {}, None, ring).kind is A


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(sorted(CODES)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "errors", "code", "type", "details", "violations", "retry_after", "error_code"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(st.integers(400, 599), JSON)
def test_no_document_breaks_the_classifier(status: int, document: Any) -> None:
    fault = fault_of_status(status, {}, None, document)
    assert fault.why.startswith(f"HTTP {status}")
    assert fault.hint is None or 0 < fault.hint <= 1e10


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_no_text_breaks_the_classifier(body: bytes | str) -> None:
    for status in (400, 429, 530):
        assert fault_of_status(status, {}, None, body).why.startswith(f"HTTP {status}")


@pytest.mark.parametrize("body", [None, 7, 1.5, object(), (), {1, 2}, memoryview(b"{}")])
def test_what_is_no_body_says_nothing(body: object) -> None:
    assert load(body) is None
    assert text_of(body) == ""
    assert fault_of_status(500, {}, None, body).kind is A
