"""Faults of other libraries in reading Retry-After; the ids are those of the catalogue of cases."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from email.message import Message
from email.utils import format_datetime
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

import perdure
from perdure import Retry
from perdure.hints import Hint, hint_of, retry_after
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WEEK = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
NOW = WEEK.timestamp() - 120


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    if not hasattr(time, "tzset"):
        pytest.skip("this platform has one time zone per process")
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


FORMS: dict[str, Callable[[datetime], tuple[str, str]]] = {
    "imf": lambda at: ("Retry-After", format_datetime(at, usegmt=True)),
    "rfc850": lambda at: ("Retry-After", f"{at:%A, %d-%b-%y %H:%M:%S} GMT"),
    "asctime": lambda at: ("Retry-After", f"{at:%a %b} {at.day:2d} {at:%H:%M:%S %Y}"),
    "rfc3339": lambda at: ("anthropic-ratelimit-tokens-reset", f"{at:%Y-%m-%dT%H:%M:%SZ}"),
    "epoch": lambda at: ("x-ratelimit-reset", f"{at.timestamp():.0f}"),
}
# A plain day, and the nights in which New York and Lord Howe change to and from summer time.
INSTANTS = [
    WEEK,
    datetime(2026, 3, 8, 7, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 6, 1, tzinfo=UTC),
    datetime(2026, 4, 4, 15, 1, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 31, tzinfo=UTC),
]


@pytest.mark.parametrize("at", INSTANTS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_b068_a_moment_is_the_same_in_every_time_zone(zone: str, form: str, at: datetime) -> None:
    """urllib3#1896, #1934, certbot#9276: a date taken as local time was hours off."""
    name, value = FORMS[form](at)
    spent = {"anthropic-ratelimit-tokens-remaining": "0", "x-ratelimit-remaining": "0"}
    hint = hint_of({name: value, **spent}, status=429, now=at.timestamp() - 120)
    assert hint == Hint(120, name.lower()), zone


def test_b068_both_clocks_are_the_ones_of_the_test() -> None:
    """A date in a virtual world is measured by its wall clock, and waited for by its monotonic one."""
    with perdure.testing.VirtualClock() as virtual:
        at = datetime.fromtimestamp(perdure.clock.wall() + 120, UTC).replace(microsecond=0)
        script = perdure.testing.Script(throttled(format_datetime(at, usegmt=True)), "ok")
        assert Retry(deadline=None).call(script) == "ok"
        assert 119 <= virtual.now <= 130


@pytest.mark.parametrize("zone_name", ["-0000", "+0000", "UTC", "GMT"])
def test_b069_a_zone_of_zero_is_utc(zone_name: str) -> None:
    """docling#3786: it made a time without a zone, and the subtraction raised TypeError."""
    assert retry_after({"Retry-After": f"Wed, 21 Oct 2026 07:28:00 {zone_name}"}, NOW) == 120


@pytest.mark.parametrize(
    "value",
    [
        "1 Jan 2099 00:00:00",
        "Thu, 01 Jan 2099 00:00:00 XYZ",
        "Thu, 01 Jan 2099 00:00:00",
        "Thu, 01 Jan 2099 00:00 GMT",
        "01 Jan 2099 00:00:00 GMT",
        "2099-01-01",
        "2099-01-01T00:00:00Z",
        "Jan 2099",
        "tomorrow",
    ],
)
def test_b070_only_the_three_forms_of_the_standard_are_dates(value: str) -> None:
    """httpx-retries#58: the parser of the standard library takes far more, as times without a zone."""
    assert retry_after({"Retry-After": value}, NOW) is None


@pytest.mark.parametrize(
    "value", ["-1", "-0.5", "-1000000", "nan", "inf", "-inf", "Thu, 32 Jan 2026 00:00:00 GMT"]
)
@pytest.mark.parametrize("colour", COLOURS)
def test_b071_a_delay_that_cannot_be_waited_is_a_computed_one(colour: str, value: str) -> None:
    """pydantic-ai#7065: time.sleep(-1) raised ValueError in place of the server's error."""
    played = play(colour, Retry(backoff=perdure.Constant(3)), throttled(value), "ok")
    assert (played.value, played.waits) == ("ok", [3])


@pytest.mark.parametrize(
    ("value", "delay"), [("9" * 5000, 1e10), ("9" * 20, 1e10), ("٣٠", None), ("²", None), ("1_0", None)]
)
def test_b072_digits_are_ascii_and_too_many_are_a_long_time(value: str, delay: float | None) -> None:
    """int() refuses 5,000 digits and takes other scripts; float() makes them infinite."""
    assert retry_after({"Retry-After": value}, NOW) == delay


@pytest.mark.parametrize("value", ["0", "Tue, 20 Oct 2026 07:28:00 GMT", "1899913600"])
@pytest.mark.parametrize("colour", COLOURS)
def test_b073_a_date_that_is_over_does_not_make_a_hot_loop(colour: str, value: str) -> None:
    """httpx-retries#13: yesterday meant at once, again and again."""
    played = play(colour, Retry(attempts=3, backoff=perdure.Constant(3)), *[throttled(value)] * 2, "ok")
    assert (played.value, played.waits) == ("ok", [3, 3])


BUDGETS = {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}


@pytest.mark.parametrize(
    ("left", "delay"),
    [
        ({"x-ratelimit-remaining-tokens": "0"}, 360),
        ({"x-ratelimit-remaining-requests": "0"}, 1),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "150"}, 1),
        ({}, 360),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_b076_the_budget_that_is_used_up_says_how_long(left: dict[str, str], delay: float, turn: int) -> None:
    """hindsight#3508: the first of two resets is too early; where neither says it is the one, the later."""
    headers = dict([*BUDGETS.items(), *left.items()][::turn])
    hint = hint_of(headers, status=429)
    assert hint is not None
    assert hint.delay == delay


def test_b078_the_delay_in_a_body_counts() -> None:
    """urllib3.future#346, go-retryablehttp#215: the body was thrown away before anyone looked."""
    body = b'{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2.5s"}]}'
    assert hint_of({"Retry-After": "1"}, status=503, body=body) == Hint(2.5, "RetryInfo")


class Response:
    status_code = 429
    headers = {"Retry-After": "30"}  # noqa: RUF012 - read only


class StatusError(Exception):
    def __init__(self) -> None:
        super().__init__("429")
        self.response = Response()


class ServiceError(Exception):
    """What a client of one's own makes of it: the text, and the error as its cause."""


class JobError(Exception):
    pass


def wrapped_twice() -> Exception:
    inner, outer = ServiceError("429"), JobError("the model did not answer")
    inner.__cause__, outer.__context__ = StatusError(), inner
    return outer


@pytest.mark.parametrize("make", [StatusError, wrapped_twice])
@pytest.mark.parametrize("colour", COLOURS)
def test_b079_the_header_is_found_on_the_response_and_under_the_error(
    colour: str, make: Callable[[], Exception]
) -> None:
    """databricks-sdk-go#767: only the text of the error arrived, so 429 was repeated three times in 4 s."""
    played = play(colour, Retry(deadline=None), make(), "ok")
    assert played.value == "ok"
    assert 30 <= played.waits[0] <= 40


def throttled(value: str) -> HTTPError:
    headers = Message()
    headers["Retry-After"] = value
    return HTTPError("https://api.example.com", 429, "slow down", headers, None)
