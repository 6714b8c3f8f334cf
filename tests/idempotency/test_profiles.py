"""Where and how each server wants its key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import ConfigError
from perdure.idempotency import PROFILES, Keys, Profile
from perdure.idempotency.profiles import Hosts
from perdure.idempotency.syntax import quote, read_key

URL = "https://api.example.com/"


@pytest.mark.parametrize(
    ("name", "header", "longest"),
    [
        ("ietf", "Idempotency-Key", 255),
        ("stripe", "Idempotency-Key", 255),
        ("adyen", "Idempotency-Key", 64),
        ("paypal", "PayPal-Request-Id", 108),
        ("amazon-pay", "x-amz-pay-idempotency-key", 32),
        ("checkout", "Cko-Idempotency-Key", 255),
    ],
)
def test_i75_header_form_and_length(name: str, header: str, longest: int) -> None:
    keys = Keys(name)
    drawn = keys.claim("POST", URL)
    assert drawn is not None
    assert list(drawn.headers) == [header]
    assert len(drawn.key) <= longest
    written = f'"{drawn.key}"' if name == "ietf" else drawn.key
    assert drawn.headers[header] == written
    assert keys.claim("POST", URL, key="x" * longest) is not None
    with pytest.raises(ConfigError, match=f"1 to {longest} .*'{name}'"):
        keys.claim("POST", URL, key="x" * (longest + 1))


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("key", ["", "ä", "a\nb", "a\x7f", "a\r\nX: y"])
def test_keys_that_would_break_the_request_are_refused(name: str, key: str) -> None:
    with pytest.raises(ConfigError, match="ASCII"):
        PROFILES[name].check(key)


def test_a_bare_key_may_not_look_like_a_list() -> None:
    with pytest.raises(ConfigError, match="without"):
        PROFILES["stripe"].check("a,b")
    assert PROFILES["ietf"].check("a,b") == "a,b"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.stripe.com", "stripe"),
        ("api.stripe.com:443", "stripe"),
        ("localhost:8080", "adyen"),
        ("localhost", None),
        ("a.b.shop.example", "paypal"),
        ("x.b.shop.example", "paypal"),
        ("c.shop.example", "square"),
        ("shop.example", None),
        ("[::1]:80", None),
    ],
)
def test_the_profile_of_a_host(host: str, name: str | None) -> None:
    known = {
        "API.stripe.com": "stripe",
        "localhost:8080": "adyen",
        "*.shop.example": "square",
        "*.b.shop.example": "paypal",
    }
    found = Hosts(known).profile_of(host)
    assert (found and found.name) == name
    rest = Hosts({**known, "*": "ietf"}).profile_of(host)
    assert rest is not None
    assert rest.name == (name or "ietf")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"header": "a b"}, "header must be a name"),
        ({"header": ""}, "header must be a name"),
        ({"header": "X\r\nY"}, "header must be a name"),
        ({"body_field": 'a"'}, "body_field must be a name"),
        ({"quoted": 1}, "quoted must be True or False"),
        ({"max_length": 0}, "max_length must be a whole number >= 1"),
        ({"retention": -1}, "retention must be"),
    ],
)
def test_profiles_that_cannot_be_are_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Profile("mine", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ('"8e03978e-40d5-43e8-bc93-6894a57f9324"', "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ('"a b"', "a b"),
        ("", None),
        ('""', None),
        ('"', None),
        ('"a', None),
        ('a"', None),
        (r'"a\b"', None),
        ("a,b", None),
        ('"a", "b"', None),
        ('"a";p=1', None),
        ("a b", None),
        ("ä", None),
        ('"ä"', None),
        ("a\x00", None),
    ],
)
def test_keys_are_read_quoted_or_bare(field: str, key: str | None) -> None:
    assert read_key(field) == key


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1))
def test_what_is_quoted_is_read_again(key: str) -> None:
    assert read_key(quote(key)) == key


@given(st.text())
def test_whatever_is_read_never_breaks_out(field: str) -> None:
    key = read_key(field)
    assert key is None or (key.isascii() and key.isprintable() and key)
