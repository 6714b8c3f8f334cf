"""Headers of any kind: nothing raises, and what comes out can be waited for."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.faults.buckets import bucket_hint
from perdure.faults.delays import LONGEST, duration, http_date, moment, number, plain
from perdure.faults.headers import read_where
from perdure.faults.hints import asked_delay, found_hint, retry_after
from perdure.faults.sentences import delay_in_text

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_796_046_243.4
NAMES = [
    *("Retry-After", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "grpc-retry-pushback-ms"),
    *("Date", "Age", "RateLimit", "RateLimit-Remaining", "RateLimit-Reset", "x-ratelimit-remaining"),
    *(
        "x-ratelimit-reset",
        "x-ratelimit-reset-after",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-remaining-tokens",
    ),
    *("x-rate-limit-reset", "anthropic-ratelimit-tokens-reset", "x-github-request-id"),
]
PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "0",
                "1",
                "60",
                "9" * 12,
                "9" * 400,
                "1796046303",
                "1796046303000",
                ".",
                "-",
                "+",
                " ",
                ",",
                ";",
                "=",
                '"',
                "\\",
            ),
            *(
                "s",
                "m",
                "h",
                "ms",
                "µs",
                "r",
                "t",
                "reset",
                "remaining",
                "limit",
                "2026-11-30T13:45:03Z",
                "T",
                "Z",
            ),
            *("Mon, 30 Nov 2026 13:45:03 GMT", "Monday, 30-Nov-26 13:45:03 GMT", "nan", "inf", "1e9", "٣"),
        ]
    ),
    max_size=8,
).map("".join)
VALUES = PIECES | st.text(max_size=20) | st.binary(max_size=20) | st.integers() | st.floats() | st.none()


@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES | st.lists(VALUES, max_size=3), max_size=8),
    st.none() | st.integers(-5, 700),
    st.none() | st.floats() | st.integers(),
)
@example({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1796046303"}, 429, -1e300)
@example({"x-ratelimit-remaining": "0", "x-rate-limit-reset": "9" * 400}, 429, 10**400)
@example({"Date": "Fri, 31 Dec 9999 23:59:59 GMT", "RateLimit": '"a";r=0;t=1', "Age": "1e9"}, 429, None)
def test_whatever_the_headers_are_the_delay_can_be_waited_for(
    headers: dict[str, object], status: int | None, now: float | None
) -> None:
    hint = found_hint(headers, now, status=status)
    if hint is not None:
        assert 0 <= hint[0] <= LONGEST
        assert math.isfinite(hint[0])
        assert hint[1] in {"github", *map(str.lower, NAMES)}
    direct = retry_after(headers, now)
    assert direct is None or 0 < direct <= LONGEST


@given(st.text() | PIECES, st.floats(-1e15, 1e15))
def test_the_grammar_gives_a_finite_number_or_nothing(text: str, now: float) -> None:
    for read in (plain, number, duration, moment, lambda text: http_date(text, now)):
        value = read(text)
        assert value is None or math.isfinite(value)
    for read in (plain, number, duration):
        assert (read(text) or 0.0) >= 0


@given(st.integers(0, 99_999_999), st.integers(0, 59), st.integers(0, 999_999_999))
def test_a_duration_is_read_as_it_is_written(hours: int, minutes: int, nanoseconds: int) -> None:
    assert duration(f"{hours}h{minutes}m{nanoseconds / 1e9:.9f}s") == pytest.approx(
        min(hours * 3600 + minutes * 60 + nanoseconds / 1e9, LONGEST)
    )


@given(st.floats(0, 1e10, allow_nan=False))
def test_a_number_of_seconds_is_read_as_it_is_written(seconds: float) -> None:
    assert plain(f"{seconds:.9f}") == pytest.approx(seconds, abs=1e-9)


def counted(function: Callable[[], object]) -> int:
    """How many lines, calls and returns of Python a call makes, whatever the machine is busy with."""
    steps = 0

    def count(*_: object) -> object:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        function()
    finally:
        sys.settrace(before)
    return steps


ADVERSARIES = [
    "9",
    "9,",
    ",",
    " ",
    ";",
    '"',
    '\\"',
    '"\\',
    "=",
    "r=0;t=1,",
    '"a";r=0;t=1,',
    "1s",
    "1m,",
    "Mon, ",
    "-",
    "t=,",
]


@pytest.mark.parametrize("unit", ADVERSARIES)
def test_the_steps_on_a_field_grow_with_its_length_and_no_faster(unit: str) -> None:
    """Lines of Python, not time; the patterns have a test of their own."""

    def steps(length: int) -> int:
        value = (unit * length)[:length]
        names = ("RateLimit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After")
        return counted(lambda: asked_delay(dict.fromkeys(names, value), NOW, status=429))

    short, long = steps(1000), steps(8000)
    assert long <= 8.5 * short + 500
    assert steps(9000) <= long + 40_000  # above the bound only Retry-After is looked at


def test_the_steps_on_many_fields_grow_with_their_number_and_no_faster() -> None:
    def steps(number: int) -> int:
        fields = {f"x-ratelimit-{role}-{n}": "1" for n in range(number) for role in ("reset", "remaining")}
        return counted(lambda: asked_delay(fields, NOW, status=429))

    assert steps(800) <= 8.5 * steps(100)


@pytest.mark.parametrize(
    "unit", ["try again in ", "retry after 1", "in 1 ", "wait 5 m", "9", "after 2026-11-30T"]
)
def test_the_steps_on_a_sentence_are_bounded(unit: str) -> None:
    def steps(length: int) -> int:
        text = (unit * length)[:length]
        return counted(lambda: delay_in_text(text, NOW))

    assert steps(4000) <= 4.5 * steps(1000) + 500
    assert steps(100_000) == steps(8192)


@pytest.mark.parametrize(
    "unit", ["1s", "1m", "9", ".", "9.", "9.9s9", "µs", "2026-", "Mon, 30 Nov 2026 13:45:03 GMT"]
)
@pytest.mark.parametrize("read", [plain, number, duration, moment, lambda text: http_date(text, NOW)])
def test_a_long_text_of_any_kind_is_read_at_once_or_refused(read: Callable[[str], object], unit: str) -> None:
    """No pattern of the grammar repeats a repetition, so 60,000 characters are no more than that many steps."""
    import time

    start = time.process_time()
    read((unit * 60_000)[:60_000])
    assert time.process_time() - start < 0.5  # a quadratic one takes minutes


def test_a_bucket_alone_needs_no_headers_object() -> None:
    found = read_where([("RateLimit", '"a";r=0;t=7')], lambda name: True)
    assert bucket_hint(found, NOW, NOW, is_limited=False) == (7.0, "ratelimit")
