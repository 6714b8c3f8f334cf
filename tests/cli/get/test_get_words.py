"""How much and how far, in words; exit codes by ending."""

from __future__ import annotations

from types import SimpleNamespace

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
        (0, 0, None, "perdure: f  0 bytes"),
        (10, 100, 0.0, "perdure: f  [==                      ] 10 %  10 bytes of 100 bytes  0 bytes/s"),
    ],
)
def test_a_line_of_progress(have: int, total: int | None, rate: float | None, words: str) -> None:
    assert line("f", have, total, rate) == words


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
