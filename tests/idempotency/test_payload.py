"""The print of a payload, derived keys, and what an answer says."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import ConfigError, FaultKind
from perdure.idempotency import Keys, derive, fault_of_keyed, fingerprint, replayed

PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4)


@given(st.tuples(st.text(), st.text(), st.binary()), st.tuples(st.text(), st.text(), st.binary()))
def test_payloads_that_differ_have_prints_that_differ(
    one: tuple[str, str, bytes], other: tuple[str, str, bytes]
) -> None:
    def what_counts(payload: tuple[str, str, bytes]) -> tuple[bytes, bytes, bytes]:
        method, content_type, body = payload
        return (
            method.upper().encode("utf-8", "replace"),
            content_type.strip().encode("utf-8", "replace"),
            body,
        )

    same = what_counts(one) == what_counts(other)
    assert (fingerprint(*one) == fingerprint(*other)) is same


def test_nothing_moves_from_one_part_of_a_payload_to_the_next() -> None:
    assert fingerprint("POST", "ab", b"c") != fingerprint("POST", "a", b"bc")


def multipart(boundary: str, quoted: str, text: str) -> tuple[str, bytes]:
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{text}\r\n--{boundary}--\r\n'
    return f"multipart/form-data; boundary={quoted}{boundary}{quoted}", body.encode()


def test_the_boundary_of_a_form_is_drawn_anew_each_time_and_does_not_count() -> None:
    one, same, other = (
        fingerprint("POST", *multipart(boundary, quoted, text))
        for boundary, quoted, text in [("aaa", "", "x"), ("bbb", '"', "x"), ("aaa", "", "y")]
    )
    assert one == same != other


@given(PARTS, PARTS)
def test_i76_the_same_parts_give_the_same_key_and_others_another(one: list[str], other: list[str]) -> None:
    for secret in (None, b"0123456789abcdef"):
        keys = [derive(*parts, namespace="shop", secret=secret) for parts in (one, other)]
        assert (keys[0] == keys[1]) is (one == other)
        assert len(keys[0]) == 36


def test_derived_keys_stay_as_they_are_for_ever() -> None:
    assert Keys.derive("order-17", 3, namespace="shop") == "55455af7-5704-58ff-8269-4ace89448b98"
    assert (
        Keys.derive("order-17", namespace="shop", secret=b"k" * 16) == "372c034f-1e0d-86cb-8819-47e2d6f6ddf7"
    )


def test_derived_keys_are_uuids_of_their_kind() -> None:
    assert UUID(derive("a", namespace="n")).version == 5
    signed = UUID(derive("a", namespace="n", secret=b"k" * 16))
    assert (signed.bytes[6] >> 4, signed.variant) == (8, UUID(int=1 << 63).variant)
    assert derive("a", namespace="n") != derive("a", namespace="m")


@pytest.mark.parametrize(
    ("parts", "options"),
    [
        ((), {"namespace": "n"}),
        (("",), {"namespace": "n"}),
        ((None,), {"namespace": "n"}),
        ((True,), {"namespace": "n"}),
        ((1.5,), {"namespace": "n"}),
        ((dt.datetime(2030, 1, 1, tzinfo=dt.UTC),), {"namespace": "n"}),
        (("\ud800",), {"namespace": "n"}),
        (("a",), {"namespace": ""}),
        (("a",), {"namespace": "n", "secret": b"short"}),
        (("a",), {"namespace": "n", "secret": "0123456789abcdef"}),
    ],
)
def test_i76_keys_are_not_derived_from_times_and_the_like(
    parts: tuple[object, ...], options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="must be"):
        derive(*parts, **options)  # type: ignore[arg-type]


# Answers


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_i72_these_answers_are_retried_with_a_key(status: int) -> None:
    assert fault_of_keyed(status).retryable


@pytest.mark.parametrize("status", [200, 201, 304, 400, 401, 403, 404, 422, 501, 505, 0, None, "409"])
def test_i72_and_these_never(status: object) -> None:
    headers = {"retry-after": "3", "x-github-request-id": "1"}
    assert not fault_of_keyed(status, headers).retryable


def test_i72_a_request_in_progress_is_awaited_for_as_long_as_the_server_asks() -> None:
    fault = fault_of_keyed(409, {"Retry-After": "7"})
    assert (fault.kind, fault.hint) == (FaultKind.TRANSIENT, 7)
    assert fault_of_keyed(409).hint is None


@pytest.mark.parametrize("header", ["Stripe-Should-Retry", "transient-error"])
@pytest.mark.parametrize("status", [400, 409, 422, 429, 500])
def test_i72_the_server_has_the_last_word(header: str, status: int) -> None:
    assert fault_of_keyed(status, {header: "true"}).retryable
    assert not fault_of_keyed(status, {header: "FALSE"}).retryable
    assert fault_of_keyed(status, {header: "perhaps"}) == fault_of_keyed(status)


def test_a_server_that_says_yes_and_no_means_no() -> None:
    headers = {"Stripe-Should-Retry": "true", "transient-error": "false"}
    assert not fault_of_keyed(500, headers).retryable


def test_the_word_of_a_server_keeps_the_delay_it_asks_for() -> None:
    fault = fault_of_keyed(422, {"Stripe-Should-Retry": "true", "Retry-After": "4"})
    assert (fault.kind, fault.hint) == (FaultKind.TRANSIENT, 4)


@given(st.integers() | st.none(), st.dictionaries(st.text(), st.text()) | st.none(), st.binary())
def test_no_answer_breaks_it(status: object, headers: object, body: bytes) -> None:
    assert fault_of_keyed(status, headers, body).why


@pytest.mark.parametrize(
    ("headers", "is_replayed"),
    [
        ({"Idempotent-Replayed": "true"}, True),
        ({"idempotent-replayed": "TRUE"}, True),
        ([(b"Idempotency-Replayed", b"?1")], True),
        ({"X-Idempotency-Replayed": "1"}, True),
        ({"Idempotency-Status": "replayed"}, True),
        ({"Idempotency-Status": "ignored"}, False),
        ({"Idempotent-Replayed": "false"}, False),
        ({}, False),
        (None, False),
        (7, False),
    ],
)
def test_i77_a_replay_is_seen(headers: object, *, is_replayed: bool) -> None:
    assert replayed(headers) is is_replayed
    assert replayed(SimpleNamespace(headers=headers)) is is_replayed


def test_a_response_whose_headers_cannot_be_read_is_no_replay() -> None:
    class Broken:
        @property
        def headers(self) -> object:
            raise RuntimeError("not yet")

    assert replayed(Broken()) is False
