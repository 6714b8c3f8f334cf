"""One logical call gets one key, before its first attempt; what cannot be sent safely is refused."""

from __future__ import annotations

import json
import threading
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import ConfigError
from perdure.idempotency import InProgress, KeyMissing, KeyReused, Keys, Profile
from perdure.idempotency.memory_store import MemoryStore

URL = "https://api.example.com/charges"


def test_a_post_gets_a_quoted_uuid_by_default() -> None:
    claim = Keys().claim("post", URL, {}, b"{}")
    assert claim is not None
    assert UUID(claim.key).version == 4
    assert claim.headers == {"Idempotency-Key": f'"{claim.key}"'}
    assert claim.body == b"{}"
    assert not claim.resumed


def test_two_calls_have_two_keys() -> None:
    keys = Keys()
    first, second = (keys.claim("POST", URL, {}, b"same") for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.key != second.key


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "delete"])
def test_methods_that_may_be_sent_twice_get_none(method: str) -> None:
    assert Keys().claim(method, URL) is None


def test_the_methods_can_be_chosen() -> None:
    keys = Keys(methods=["post", "DELETE"])
    assert keys.claim("DELETE", URL) is not None
    assert keys.claim("PATCH", URL) is None


@pytest.mark.parametrize("written", ['"mine-1"', "mine-1", "  mine-1 "])
def test_i70_a_key_in_the_request_stays(written: str) -> None:
    claim = Keys().claim("POST", URL, [("idempotency-KEY", written)], b"{}")
    assert claim is not None
    assert claim.key == "mine-1"
    assert claim.headers == {}


@pytest.mark.parametrize("lines", [[""], ['""'], ["a", "b"], ["a, b"], ['"a'], ["a\tb"], ["ä"], ["a" * 256]])
def test_a_key_in_the_request_that_no_server_takes_is_an_error(lines: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"Idempotency-Key must|key must"):
        Keys().claim("POST", URL, [("Idempotency-Key", line) for line in lines], b"{}")


def test_a_key_that_contradicts_the_request_is_an_error() -> None:
    with pytest.raises(ConfigError, match="key must be the one that the request has, 'a', got 'b'"):
        Keys().claim("POST", URL, {"Idempotency-Key": "a"}, key="b")


def test_b105_three_attempts_have_one_key() -> None:
    claim = Keys().claim("POST", URL, {}, b"{}")
    assert claim is not None
    sent = []
    for _ in range(3):
        claim.check(b"{}")
        sent.append(claim.headers["Idempotency-Key"])
    assert len(set(sent)) == 1


def test_i73_another_payload_under_a_key_is_refused() -> None:
    keys = Keys()
    claim = keys.claim("POST", URL, {}, b'{"amount": 1}', key="k")
    assert claim is not None
    claim.done(200)
    with pytest.raises(KeyReused) as caught:
        keys.claim("POST", URL, {}, b'{"amount": 2}', key="k")
    assert (caught.value.key, caught.value.host, caught.value.status) == ("k", "api.example.com", 200)


@pytest.mark.parametrize(
    ("method", "content_type", "body"),
    [("PATCH", "a/b", b"x"), ("POST", "a/c", b"x"), ("POST", "a/b", b"y"), ("POST", "a/b", None)],
)
def test_method_content_type_and_body_make_the_payload(
    method: str, content_type: str, body: bytes | None
) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {"Content-Type": "a/b"}, b"x", key="k")
    assert first is not None
    first.unknown()
    with pytest.raises(KeyReused):
        keys.claim(method, URL, {"Content-Type": content_type}, body, key="k")


def test_a_payload_that_changes_between_two_attempts_is_refused() -> None:
    claim = Keys().claim("POST", URL, {}, b"one")
    assert claim is not None
    claim.check(b"one")
    with pytest.raises(KeyReused):
        claim.check(b"two")


def test_one_key_may_go_to_two_hosts() -> None:
    keys = Keys()
    assert keys.claim("POST", URL, {}, b"1", key="k") is not None
    assert keys.claim("POST", "https://other.example.com/", {}, b"2", key="k") is not None


def test_b107_the_second_of_two_calls_of_one_operation_is_refused_while_the_first_goes_on() -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    with pytest.raises(InProgress) as caught:
        keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert (caught.value.key, caught.value.operation) == (first.key, "order-17")
    first.unknown()
    second = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert second is not None
    assert (second.key, second.resumed) == (first.key, True)


def test_b107_of_many_threads_with_one_operation_one_gets_it() -> None:
    keys = Keys()
    together = threading.Barrier(8)
    got: list[object] = []

    def call() -> None:
        together.wait(30)
        try:
            got.append(keys.claim("POST", URL, {}, b"{}", operation="order-17"))
        except InProgress as refused:
            got.append(refused)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 8
    assert sum(isinstance(one, InProgress) for one in got) == 7


def test_a_claim_that_is_dropped_unended_holds_nothing() -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    key = first.key
    del first
    second = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert second is not None
    assert (second.key, second.resumed) == (key, True)


def test_an_operation_done_before_has_its_key_and_is_asked_again_with_it() -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    assert first.done(201)
    again = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert again is not None
    assert again.key == first.key


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_after_a_refusal_the_operation_takes_a_corrected_payload(status: int) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"wrong", operation="order-17")
    assert first is not None
    first.done(status)
    second = keys.claim("POST", URL, {}, b"right", operation="order-17")
    assert second is not None
    assert second.key != first.key


@pytest.mark.parametrize("status", [401, 422])
def test_a_refusal_after_a_lost_attempt_proves_nothing(status: int) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    first.lost()
    first.done(status)
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {}, b"other", operation="order-17")
    same = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert same is not None
    assert same.key == first.key
    same.failed()  # so does a resumed claim: the earlier call may have acted
    third = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert third is not None
    assert third.key == first.key


@pytest.mark.parametrize("status", [409, 425, 429, 500, 502, 503, 504, 408])
def test_an_answer_that_is_retried_leaves_the_outcome_open(status: int) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    first.done(status)
    again = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert again is not None
    assert again.key == first.key


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (500, {"Stripe-Should-Retry": "false"}),
        (409, {"transient-error": "false"}),
        (501, {}),
        (100, {}),
        (999, {}),
    ],
)
def test_a_server_that_advises_against_sending_again_does_not_say_that_nothing_happened(
    status: int, headers: dict[str, str]
) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    first.done(status, headers)
    again = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert again is not None
    assert again.key == first.key


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_was_not_followed_did_nothing(status: int) -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert first is not None
    first.done(status)
    assert keys.claim("POST", URL, {}, b"other", operation="order-17") is not None


def test_only_the_first_ending_counts() -> None:
    keys = Keys()
    claim = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert claim is not None
    assert claim.done(200)
    assert claim.failed()
    again = keys.claim("POST", URL, {}, b"{}", operation="order-17")
    assert again is not None
    assert again.key == claim.key


def test_an_operation_keeps_the_key_it_was_given() -> None:
    keys = Keys()
    first = keys.claim("POST", URL, {}, b"{}", key="k", operation="order-17")
    assert first is not None
    first.unknown()
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {}, b"{}", key="other", operation="order-17")
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {}, b"{}", key="k", operation="order-18")


def test_a_constant_make_is_noticed() -> None:
    keys = Keys(make=lambda: "always")
    first = keys.claim("POST", URL, {}, b"1")
    assert first is not None
    first.done(200)
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {}, b"2")


# Hosts without a profile


def test_i78_an_unsafe_request_without_profile_and_key_is_refused() -> None:
    keys = Keys({"api.stripe.com": "stripe"})
    with pytest.raises(KeyMissing, match=r"^api\.example\.com: .*allow_unsafe=True$"):
        keys.claim("POST", URL, {}, b"{}")
    assert keys.claim("GET", URL) is None
    assert Keys({"api.stripe.com": "stripe"}, allow_unsafe=True).claim("POST", URL, {}, b"{}") is None


@pytest.mark.parametrize("header", ["Idempotency-Key", "PayPal-Request-Id", "Cko-Idempotency-Key"])
def test_a_key_in_a_request_to_an_unknown_host_counts(header: str) -> None:
    keys = Keys({"api.stripe.com": "stripe"})
    claim = keys.claim("POST", URL, {header: "mine"}, b"1")
    assert claim is not None
    assert (claim.key, claim.headers) == ("mine", {})
    claim.unknown()
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {header: "mine"}, b"2")


def test_a_key_given_for_an_unknown_host_goes_out_as_the_draft_has_it() -> None:
    claim = Keys({"api.stripe.com": "stripe"}).claim("POST", URL, {}, b"1", key="mine")
    assert claim is not None
    assert claim.headers == {"Idempotency-Key": '"mine"'}


# Bodies


def test_i75_square_has_the_key_in_the_body() -> None:
    body = b' {"amount": 12345678901234567890.10, "note": "\xc3\xa4"}'
    claim = Keys("square").claim("POST", URL, {"Content-Type": "application/json"}, body)
    assert claim is not None
    assert claim.headers == {}
    assert claim.body == body.replace(b"{", b'{"idempotency_key":"%s",' % claim.key.encode(), 1)
    assert len(claim.key) <= 45
    claim.check(claim.body)
    claim.check(body)
    with pytest.raises(KeyReused):
        claim.check(b"{}")


def test_square_bodies_keep_the_key_they_have() -> None:
    body = b'{"idempotency_key": "mine", "amount": 1}'
    claim = Keys("square").claim("POST", URL, {}, body)
    assert claim is not None
    assert (claim.key, claim.body) == ("mine", body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"[]",
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"idempotency_key": 1}',
        b'{"idempotency_key": ""}',
    ],
)
def test_square_bodies_that_hold_no_key_are_an_error(body: bytes | None) -> None:
    with pytest.raises(ConfigError, match="must be"):
        Keys("square").claim("POST", URL, {}, body)


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())))
def test_a_body_changes_by_its_key_and_nothing_else(document: dict[str, object]) -> None:
    document.pop("idempotency_key", None)
    claim = Keys("square").claim("POST", URL, {}, json.dumps(document).encode())
    assert claim is not None
    assert json.loads(claim.body or b"") == {"idempotency_key": claim.key, **document}


# Bounds


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    keys = Keys()
    store = keys._store = MemoryStore(3)
    for number in range(10):
        claim = keys.claim("POST", URL, {}, b"1", key=f"k{number}", operation=f"o{number}")
        assert claim is not None
        claim.done(200)
    assert len(store) == 3
    with pytest.raises(KeyReused):
        keys.claim("POST", URL, {}, b"2", key="k9", operation="o9")
    assert keys.claim("POST", URL, {}, b"2", key="k0", operation="o0") is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"profile": "nobody"}, "profile must be a Profile or one of ietf, stripe"),
        ({"profile": {"https://x/": "ietf"}}, "profile must map hosts"),
        ({"profile": 7}, "profile must be"),
        ({"methods": [1]}, "methods must be names"),
        ({"make": "uuid"}, "make must be a callable"),
        ({"store": "keys.sqlite"}, "store must be a ClientStore"),
        ({"retention": 0}, "retention must be a finite number of seconds > 0"),
        ({"retention": 600}, "margin must be below the retention of 600 s"),
        ({"margin": -1}, "margin must be"),
        ({"margin": float("nan")}, "margin must be"),
        ({"allow_unsafe": 1}, "allow_unsafe must be True or False"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Keys(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"method": ""}, "method must be"),
        ({"body": "text"}, "body must be bytes or None"),
        ({"key": ""}, "key must have 1 to 255"),
        ({"key": 7}, "key must have 1 to 255"),
        ({"operation": ""}, "operation must be 1 to 255"),
        ({"operation": "a" * 256}, "operation must be 1 to 255"),
        ({"operation": "\ud800"}, "operation must be 1 to 255"),
    ],
)
def test_arguments_that_cannot_be_are_refused(call: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Keys().claim(**{"method": "POST", "url": URL, **call})  # type: ignore[arg-type]


def test_a_key_that_make_gives_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"make\(\) must have 1 to 64 .*'adyen'"):
        Keys("adyen", make=lambda: "x" * 65).claim("POST", URL)


def test_a_url_that_is_none_is_an_unknown_host() -> None:
    keys = Keys({"api.stripe.com": "stripe"})
    for url in ("", "/charges", "https://[::1", None):
        with pytest.raises(KeyMissing):
            keys.claim("POST", url)


def test_a_profile_of_your_own() -> None:
    keys = Keys({"*.example.com": Profile("mine", header="X-Request-Key", max_length=20)}, make=lambda: "n-1")
    claim = keys.claim("POST", URL)
    assert claim is not None
    assert claim.headers == {"X-Request-Key": "n-1"}
