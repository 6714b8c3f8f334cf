"""How much and how far, in words; exit codes by ending."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.get import progress
from perdure.cli.get.exits import exit_code
from perdure.cli.get.progress import line
from perdure.cli.get.wording import size
from perdure.cli.screen import Screen


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (12_345_678, "12.3 MB"),
        (5 * 10**12, "5 TB"),
    ],
)
def test_a_size_has_three_digits(count: int, words: str) -> None:
    assert size(count) == words


@given(st.integers(0, 10**15))
def test_a_size_is_short(count: int) -> None:
    assert len(size(count)) <= 10
    assert "e+" not in size(count)


@pytest.mark.parametrize(
    ("have", "total", "rate", "words"),
    [
        (
            6_000_000,
            12_000_000,
            3e6,
            "perdure: f  [============            ] 50 %  6 MB of 12 MB  3 MB/s  2 s left",
        ),
        (6_000_000, None, 3e6, "perdure: f  6 MB  3 MB/s"),
        (
            5,
            1,
            2e-308,
            "perdure: f  [========================] 100 %  5 bytes of 1 byte  0 bytes/s  0 s left",
        ),
        (0, 0, None, "perdure: f  0 bytes"),
        (10, 100, 0.0, "perdure: f  [==                      ] 10 %  10 bytes of 100 bytes  0 bytes/s"),
    ],
)
def test_a_line_of_progress(have: int, total: int | None, rate: float | None, words: str) -> None:
    assert line("f", have, total, rate) == words


FULL = (
    "perdure: tool-1.42-linux.tar.gz  [==========              ] "
    "42 %  123 MB of 291 MB  1.5 MB/s  1 min 52 s left"
)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (40, "42 %  123 MB  1.5 MB/s  1 min 52 s left"),
        (60, "42 %  123 MB of 291 MB  1.5 MB/s  1 min 52 s left"),
        (80, "perdure: tool-1.4...x.tar.gz  42 %  123 MB of 291 MB  1.5 MB/s  1 min 52 s left"),
        (120, FULL),
    ],
)
def test_the_figures_stay_where_a_terminal_is_narrow(columns: int, words: str) -> None:
    shown = line("tool-1.42-linux.tar.gz", 123_000_000, 291_000_000, 1_500_000, columns - 1)
    assert shown == words
    assert len(shown) < columns


def test_the_bar_gets_smaller_before_the_name_does() -> None:
    shown = line("data.csv", 6_000_000, 12_000_000, 3e6, 79)
    assert shown == "perdure: data.csv  [==========          ] 50 %  6 MB of 12 MB  3 MB/s  2 s left"
    assert len(shown) == 79


@given(
    st.text("abc.", min_size=1, max_size=90),
    st.integers(0, 10**12),
    st.none() | st.integers(1, 10**12),
    st.floats(1, 1e9),
    st.integers(60, 200),
)
def test_a_line_fits_and_ends_with_its_figures(
    name: str, have: int, total: int | None, rate: float, width: int
) -> None:
    shown, full = line(name, have, total, rate, width), line("f", have, total, rate)
    assert len(shown) <= width
    assert shown.endswith(full.partition("] ")[2] if total else full.removeprefix("perdure: f  "))


def test_a_terminal_gets_a_line_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    screen: Any = SimpleNamespace(live=True, width=39, draw=drawn.append)
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = progress.Progress(screen, "f", wanted=True)
    for second in range(3):
        now[0] = float(second)
        shown.show(1_000_000 * second, 50_000_000)
    assert drawn[-1] == "4 %  2 MB of 50 MB  1 MB/s  48 s left"


def test_without_a_terminal_a_sentence_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = progress.Progress(Screen(), "f", wanted=True)
    for _ in range(100):
        now[0] += 0.25
        shown.show(int(now[0] * 1000), 50_000)
    assert capfd.readouterr().err.splitlines() == [
        "perdure: f  [=====                   ] 20 %  10 kB of 50 kB",
        "perdure: f  [==========              ] 40 %  20 kB of 50 kB  1 kB/s  30 s left",
    ]


@given(st.integers(0, 10**15), st.none() | st.integers(0, 10**15), st.none() | st.floats(0, 1e12))
def test_any_progress_can_be_shown(have: int, total: int | None, rate: float | None) -> None:
    assert line("f", have, total, rate).isprintable()


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        *[("success", 0), ("checksum", 1), ("permanent", 4), ("neutral", 4), ("attempts", 5), ("hint", 5)],
        *[("unreplayable", 5), ("deadline", 124)],
    ],
)
def test_the_exit_code_of_an_ending(stop: str, code: int) -> None:
    assert exit_code(stop) == code


def test_a_last_attempt_that_was_cut_is_124_and_a_signal_128_and_more() -> None:
    assert exit_code("attempts", timed_out=True) == 124
    assert exit_code("permanent", timed_out=True) == 4
    assert exit_code("interrupted", signum=2) == 130
