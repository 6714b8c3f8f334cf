"""Durations at the edge: what is read as seconds, what is refused, and how they are written for people."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.durations import human, seconds

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (2, 2),
        (0.5, 0.5),
        ("2", 2),
        ("0.5", 0.5),
        (".5", 0.5),
        ("250ms", 0.25),
        ("2s", 2),
        ("1m", 60),
        ("1min", 60),
        ("1m30s", 90),
        ("1m 30s", 90),
        (" 2S ", 2),
        ("1.5h", 5400),
        ("1h1m1s1ms", 3661.001),
        ("2d", 172_800),
        ("0s", 0),
        (timedelta(0), 0),
        (timedelta(minutes=1, milliseconds=500), 60.5),
        (timedelta.max, timedelta.max.total_seconds()),
    ],
)
def test_what_is_read(value: Any, expected: float) -> None:
    read = seconds(value)
    assert read == pytest.approx(expected)
    assert type(read) is float


@pytest.mark.parametrize(
    "value",
    [
        *(-1, -0.001, math.nan, math.inf, -math.inf, 10**400, True, False, None),
        *(
            "",
            " ",
            "soon",
            "s",
            "ms",
            "-1s",
            "+1s",
            "1 s 2",
            "1x",
            "1e3",
            "1,5s",
            "1..5s",
            "1s-1s",
            "s1",
            "1s1",
        ),
        *("inf", "nan", "1_000", "٣s", "²", "1s\x00", "0x10", "9" * 400, "9" * 400 + "s", "1 hour", "--"),
        *(timedelta(seconds=-1), timedelta, [], {}, object(), 1 + 0j, b"2s"),
    ],
    ids=repr,
)
def test_what_is_refused(value: Any) -> None:
    with pytest.raises(perdure.ConfigError) as caught:
        seconds(value, field="Timeouts.total")
    assert str(caught.value).startswith("Timeouts.total must be a duration of 0 or more, such as 2, 0.5, ")
    assert str(caught.value).endswith(f"got {value!r}")
    assert "\n" not in str(caught.value)


@given(st.floats(0, 1e15))
def test_a_number_is_seconds(value: float) -> None:
    assert seconds(value) == value


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6))
def test_parts_add_up_in_any_order(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert seconds(text) == pytest.approx(sum(number * UNITS[unit] for number, unit in parts))


@given(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(UNITS)))
def test_fractions_are_read_with_every_unit(number: Any, unit: str) -> None:
    assert seconds(f"{number}{unit}") == pytest.approx(float(number) * UNITS[unit])


@given(st.timedeltas(timedelta(0)))
def test_a_timedelta_is_its_seconds(value: timedelta) -> None:
    assert seconds(value) == value.total_seconds()


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = seconds(text)
    except perdure.ConfigError:
        return
    assert 0 <= read < math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.0001, "0.1 ms"),
        (0.25, "250 ms"),
        (0.999, "999 ms"),
        (0.9994, "999 ms"),
        (0.9995, "1 s"),
        (0.9996, "1 s"),
        (0.999999, "1 s"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (150.4, "2 min 30 s"),
        (3599.9, "1 h"),
        (3600, "1 h"),
        (11_100, "3 h 5 min"),
        (86_400 * 3, "72 h"),
        (math.inf, "for ever"),
    ],
)
def test_how_it_is_written_for_people(value: float, text: str) -> None:
    assert human(value) == text


@given(st.floats(0.001, 1e7))
def test_what_is_written_is_read_back_within_rounding(value: float) -> None:
    text = human(value)
    assert "e" not in text.replace("for ever", "")
    assert seconds(text.replace(" ", "")) == pytest.approx(value, rel=0.01, abs=31 if value > 3600 else 0.51)
