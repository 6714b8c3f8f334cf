"""Whether the request behind an exception may be sent twice."""

from __future__ import annotations

import io
import urllib.error
from email.message import Message
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from perdure.faults import Safety, safety_of
from perdure.faults.safety import KEY_FIELDS
from tests.faults.foreign import ForeignError, NoRequestError, request


@pytest.mark.parametrize(
    ("method", "safety"),
    [
        *((method, Safety.SAFE) for method in ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY")),
        *((method, Safety.UNSAFE) for method in ("POST", "PATCH", "CONNECT", "LOCK", "post")),
        ("get", Safety.SAFE),
        (b"GET", Safety.SAFE),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_method_is_safe_or_not(method: object, safety: Safety | None) -> None:
    assert safety_of(ForeignError(request=request(method))) is safety
    assert safety_of(ForeignError(response=SimpleNamespace(request=request(method)))) is safety
    assert safety_of(ForeignError(request_info=request(method))) is safety


@pytest.mark.parametrize(
    ("headers", "safety"),
    [
        ({"Idempotency-Key": "k"}, Safety.KEYED),
        ({"idempotency-key": b"k"}, Safety.KEYED),
        ([("IDEMPOTENCY-KEY", "k")], Safety.KEYED),
        (((b"idempotency-key", b"k"),), Safety.KEYED),
        ({"Idempotency-Key": " "}, Safety.UNSAFE),
        ({"X-Key": "k"}, Safety.UNSAFE),
        (None, Safety.UNSAFE),
        (7, Safety.UNSAFE),
    ],
)
def test_a_key_makes_an_unsafe_method_keyed(headers: object, safety: Safety) -> None:
    assert safety_of(ForeignError(request=request("POST", headers))) is safety


@pytest.mark.parametrize("field", KEY_FIELDS)
def test_vendors_have_their_own_names_for_the_key(field: str) -> None:
    assert safety_of(ForeignError(request=request("POST", {field.title(): "k"}))) is Safety.KEYED


@pytest.mark.parametrize("name", ["response", "resp", "http_response"])
def test_the_request_may_hang_on_the_response(name: str) -> None:
    exc = ForeignError(**{name: SimpleNamespace(request=request("POST"))})
    assert safety_of(exc) is Safety.UNSAFE


def test_what_carries_no_request_says_nothing() -> None:
    with urllib.error.HTTPError("http://host.test", 503, "x", Message(), io.BytesIO()) as http_error:
        assert safety_of(http_error) is None
    for exc in (
        ValueError(),
        NoRequestError(),
        ForeignError(request="POST"),
        ForeignError(request=MagicMock()),
    ):
        assert safety_of(exc) is None


def test_the_nearest_request_counts() -> None:
    top = ForeignError()
    top.__cause__ = ForeignError(request=request("POST"))
    top.__cause__.__cause__ = ForeignError(request=request("GET"))
    assert safety_of(top) is Safety.UNSAFE


def test_the_most_dangerous_leaf_of_a_group_counts() -> None:
    get, post, keyed = (
        ForeignError(request=request("GET")),
        ForeignError(request=request("POST")),
        ForeignError(request=request("POST", {"Idempotency-Key": "k"})),
    )
    assert safety_of(ExceptionGroup("g", [get, ExceptionGroup("g", [post]), keyed])) is Safety.UNSAFE
    assert safety_of(ExceptionGroup("g", [get, keyed, ValueError()])) is Safety.KEYED
    assert safety_of(ExceptionGroup("g", [ValueError()])) is None
    wrapper = ForeignError()
    wrapper.__cause__ = ExceptionGroup("g", [ValueError(), post])
    assert safety_of(wrapper) is Safety.UNSAFE
