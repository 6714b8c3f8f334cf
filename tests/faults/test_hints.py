from __future__ import annotations

import math
import os
import time
from email.message import Message
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.faults import hints, retry_after
from perdure.faults.delays import http_date
from perdure.faults.hints import LONGEST, asked_delay

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_796_046_243.4  # Mon, 30 Nov 2026 13:44:03 GMT
OVER_ANY_CAP = LONGEST


def imf(seconds: float, zone: str = "GMT") -> str:
    return formatdate(NOW + seconds, usegmt=True).replace("GMT", zone)


def rfc850(seconds: float) -> str:
    return time.strftime("%A, %d-%b-%y %H:%M:%S GMT", time.gmtime(NOW + seconds))


def asctime(seconds: float) -> str:
    return time.asctime(time.gmtime(NOW + seconds))


VALUES: list[tuple[str, float | None]] = [
    ("60", 60),
    (" 60 ", 60),
    ("\t60", 60),
    ("007", 7),
    ("0", None),
    ("0.0", None),
    ("-1", None),
    ("-0", None),
    ("+60", None),
    ("1.5", 1.5),
    ("2.0", 2),
    ("0.25", 0.25),
    (".5", None),
    ("60.", None),
    ("1.2.3", None),
    ("1e3", None),
    ("1_000", None),
    ("inf", None),
    ("Infinity", None),
    ("nan", None),
    ("1e400", None),
    ("9" * 20, OVER_ANY_CAP),
    ("9" * 5000, OVER_ANY_CAP),
    ("0" * 5000 + "7", 7),
    ("1." + "3" * 5000, pytest.approx(4 / 3, abs=1e-6)),
    ("", None),
    ("   ", None),
    ("60, 60", 60),
    ("5,60, 7", 60),
    ("x, 60,", 60),
    (",,", None),
    ("60;x", None),
    ("0x10", None),
    ("null", None),
    ("\0", None),
    ("60\0", None),
    # Durations of Go are no part of the standard: GitHub has been seen to send "1m0s" (urllib3/urllib3#1822).
    ("1m30s", 90),
    ("1m0s", 60),
    ("23h47m36.648s", 85_656.648),
    ("17ms", 0.017),
    ("60s", 60),
    ("60s, 2m", 120),
    ("0s", None),
    ("-1m", None),
    ("1m30", None),
    ("1M", None),
    ("m", None),
    ("1..5s", None),
    ("1m 30s", None),
    ("9" * 17 + "h", None),
    ("9" * 16 + "h", OVER_ANY_CAP),
    ("1s" * 40, None),
    ("PT30S", None),
    ("30 s", None),
    ("٣٠", None),
    ("²", None),
    (imf(60), 60),
    (imf(60).lower(), 60),
    (rfc850(60), 60),
    (asctime(60), 60),
    ("Tue Dec  1 13:44:03 2026", 86_400),
    (imf(0), None),
    (imf(-86_400), None),
    (rfc850(-60), None),
    (imf(60, "-0000"), 60),
    (imf(60, "+0000"), 60),
    (imf(60, "XYZ"), None),
    (imf(60, "+0200"), None),
    (imf(60, "EST"), None),
    (imf(60, "").strip(), None),
    (imf(60) + " x", None),
    (imf(60) + ", 90", 90),
    ("90, " + imf(120), 120),
    (f"{imf(60)}, {rfc850(90)}", 90),
    ("2026-11-30T13:45:03Z", None),
    ("1796046303", 60),
    ("1796046303.0", 60),
    ("1796046000", None),
    ("1000000001", 1_000_000_001),
    (str(1_796_046_243 + 366 * 86_400 - 1), 366 * 86_400 - 1),
    (str(1_796_046_243 + 366 * 86_400), 1_796_046_243 + 366 * 86_400),
    ("Fri, 31 Dec 9999 23:59:59 GMT", OVER_ANY_CAP),
    ("Mon, 30 Nov 2026 13:44:60 GMT", 56),
    ("Mon, 30 Nov 2026 13:44:61 GMT", None),
    ("Mon, 30 Nov 2026 24:00:00 GMT", None),
    ("Mon, 29 Feb 2027 13:45:03 GMT", None),
    ("Mon, 00 Nov 2027 13:45:03 GMT", None),
    ("Mon, 30 Nov 0000 13:45:03 GMT", None),
    ("Mon, 99999999999999 Nov 2026 13:45:03 GMT", None),
    ("1 Jan 2099 00:00:00", None),
    ("30 Nov 2026 13:45:03 GMT", None),
    ("Mon, 30 Nov 2026 13:45 GMT", None),
    ("Sunday, 06-Nov-94 08:49:37 GMT", None),
]


@pytest.mark.parametrize(("value", "delay"), VALUES, ids=lambda value: repr(value)[:40])
def test_a_value_gives_its_delay_or_nothing(value: str, delay: float | None) -> None:
    for headers in (
        {"Retry-After": value},
        {"retry-after": value},
        {"RETRY-AFTER": value.encode("utf-8")},
        [("x-other", "1"), (b"Retry-After", value)],
    ):
        assert retry_after(headers, NOW) == delay


def test_two_digit_years_follow_the_rule_of_the_standard() -> None:
    def at(year: str) -> float | None:
        return asked_delay({"Retry-After": f"Monday, 30-Nov-{year} 13:44:03 GMT"}, NOW)

    assert at("76") == pytest.approx(50 * 365.25 * 86_400, rel=0.001)
    assert at("77") == 0.0  # 1977: 2077 is more than 50 years ahead
    assert at("26") == 0.0
    assert at("27") == 365 * 86_400


def test_the_century_is_known_even_where_the_clock_is_beyond_all_years() -> None:
    assert http_date("Monday, 30-Nov-26 13:44:03 GMT", 1e300) == pytest.approx(NOW, abs=1)


@pytest.mark.parametrize(("value", "asked"), [("0", 0.0), (imf(-5), 0.0), ("1796046000", 0.0), ("-1", None)])
def test_no_more_delay_and_no_valid_delay_are_told_apart(value: str, asked: float | None) -> None:
    assert asked_delay({"Retry-After": value}, NOW) == asked
    assert retry_after({"Retry-After": value}, NOW) is None


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after-ms": "4321", "retry-after": "60"}, 4.321),
        ({"X-MS-Retry-After-Ms": "250"}, 0.25),
        ({"x-amz-retry-after": "1500"}, 1.5),
        ({"retry-after-ms": "10", "x-amz-retry-after": "1500"}, 0.01),
        ({"retry-after-ms": "soon", "retry-after": "60"}, 60),
        ({"retry-after-ms": "-1", "retry-after": "60"}, 60),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "0", "retry-after": "60"}, None),
        ({"retry-after-ms": "9" * 400}, LONGEST / 1000),
    ],
)
def test_milliseconds_come_first_where_they_are_valid(headers: dict[str, str], delay: float | None) -> None:
    assert retry_after(headers, NOW) == delay


@pytest.mark.parametrize("skew", [-86_400, -400, 0, 400, 86_400])
def test_a_date_is_measured_from_the_date_of_the_response(skew: float) -> None:
    assert retry_after({"Retry-After": imf(60), "Date": imf(0)}, NOW + skew) == 60
    assert retry_after({"Retry-After": "1796046303", "Date": imf(0)}, NOW + skew) == 60


@pytest.mark.parametrize("date", ["yesterday", "", imf(0, "XYZ"), "2026-11-30T13:44:03Z"])
def test_without_a_valid_date_the_clock_counts(date: str) -> None:
    assert retry_after({"Retry-After": imf(60), "Date": date}, NOW) == 60


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"Retry-After": "60", "Age": "5"}, 60),
        ({"Retry-After": "60", "Age": "60"}, None),
        ({"Retry-After": "60", "Age": "1", "Date": imf(-3600)}, None),
        ({"Retry-After": "60", "Date": imf(-3600)}, 60),
        ({"Retry-After": "60", "Age": "old"}, 60),
    ],
)
def test_an_answer_replayed_from_a_cache_asks_for_nothing(
    headers: dict[str, str], delay: float | None
) -> None:
    assert retry_after(headers, NOW) == delay


def message(*values: str) -> Message:
    headers = Message()
    for value in values:
        headers["Retry-After"] = value
    return headers


class Failing:
    def items(self) -> object:
        raise RuntimeError("closed")


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ([("Retry-After", "5"), ("retry-after", "60")], 60),
        ([("Retry-After", "5"), ("retry-after", "x")], 5),
        (message("5", "60"), 60),
        ({"Retry-After": ["5", "60"]}, 60),
        ({"Retry-After": 60}, 60),
        ({"Retry-After": 1.5}, 1.5),
        ({"Retry-After": True}, None),
        ({"Retry-After": None}, None),
        ({"Retry-After": float("nan")}, None),
        ({"Retry-After": b"\xff"}, None),
        ({3: "x", "Retry-After": "60"}, 60),
        (None, None),
        ({}, None),
        ("Retry-After: 60", None),
        ([("Retry-After",)], None),
        (7, None),
        (Failing(), None),
    ],
    ids=repr,
)
def test_headers_come_in_many_shapes(headers: object, delay: float | None) -> None:
    assert retry_after(headers, NOW) == delay


def test_a_one_shot_iterator_is_left_alone() -> None:
    pairs = iter([("Retry-After", "60")])
    assert retry_after(pairs, NOW) is None
    assert next(pairs) == ("Retry-After", "60")


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Europe/London"])
def timezone(request: pytest.FixtureRequest) -> Iterator[str]:
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


# Now, and across the changes to and from summer time in 2026 of the zones that have them.
@pytest.mark.parametrize("now", [NOW, 1_772_953_200 - 60, 1_793_512_800 - 60, 1_774_746_000 - 60])
@pytest.mark.parametrize("shape", [imf, rfc850, asctime])
def test_a_date_means_the_same_in_every_time_zone(timezone: str, now: float, shape: object) -> None:
    assert callable(shape)
    value = shape(now - NOW + 120)
    assert retry_after({"Retry-After": value}, now) == 120


def test_a_number_is_a_moment_only_above_a_billion() -> None:
    """In the year 2001 the moments were as small as the delays."""
    assert retry_after({"Retry-After": "1000000000"}, 999_999_900) == 1_000_000_000
    assert retry_after({"Retry-After": "1000000001"}, 999_999_900) == 101


def test_the_clock_is_read_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "wall_clock", lambda: NOW)
    assert retry_after({"Retry-After": imf(60)}) == 60
    assert retry_after({"Retry-After": imf(60)}, float("nan")) == 60


DATE_LIKE = st.lists(
    st.sampled_from(
        [
            "Mon",
            "Monday",
            ",",
            " ",
            "30",
            "Nov",
            "2026",
            "13:45:03",
            "GMT",
            "-",
            "60",
            "0",
            "9" * 12,
            ".",
            "\t",
            "٣",
        ]
    ),
    max_size=14,
).map("".join)


@given(st.text() | DATE_LIKE | st.binary() | st.integers() | st.floats(), st.floats() | st.none())
@example("Monday, 30-Nov-26 13:45:03 GMT", math.inf)
@example("Monday, 30-Nov-26 13:45:03 GMT", 1e300)
@example("60", -1e300)
def test_whatever_is_sent_the_result_can_be_waited_for(value: object, now: float | None) -> None:
    for name in ("Retry-After", "retry-after-ms"):
        delay = retry_after({name: value, "Date": value, "Age": value}, now)
        assert delay is None or (0 < delay <= LONGEST and math.isfinite(delay))


@pytest.mark.parametrize(
    "unit", ["9", "9,", ",", " ", "Mon, ", "Mon, 30 Nov 2026 13:45:03 GMT ", "9.", "\t,"]
)
def test_a_parse_is_linear(unit: str) -> None:
    """Four times the length costs far less than the sixteen times of a quadratic parse."""

    def cost(length: int) -> float:
        value = {"Retry-After": (unit * length)[:length]}

        def once() -> float:
            start = time.process_time()
            asked_delay(value, NOW)
            return time.process_time() - start

        return min(once() for _ in range(5))

    assert cost(60_000) <= 9 * cost(15_000) + 0.005


def test_a_value_longer_than_any_sender_means_is_ignored() -> None:
    assert retry_after({"Retry-After": "9" * 65_537}, NOW) is None
