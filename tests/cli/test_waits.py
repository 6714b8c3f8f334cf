"""``--wait`` says in a word what the library's backoffs say in code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.waits import read_wait
from perdure.core.backoff import Backoff, Exponential
from perdure.core.shapes import Constant, Decorrelated, Fibonacci, Linear, Schedule
from perdure.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("const:0", Constant(0)),
        ("const:2s,10%", Constant(2, jitter=0.1)),
        ("2s", Constant(2)),
        ("0.5", Constant(0.5)),
        ("exp:0.5s..30s", Exponential(base=0.5, cap=30)),
        ("exp:0.5s..30s,full", Exponential(base=0.5, cap=30)),
        ("exp:0.5s..30s,full-jitter", Exponential(base=0.5, cap=30)),
        ("exp:250ms..1m30s*3,equal", Exponential(base=0.25, factor=3, cap=90, jitter="equal")),
        ("exp:1..30,coherent", Exponential(base=1, cap=30, jitter="coherent")),
        ("exp:1..30,none", Exponential(base=1, cap=30, jitter="none")),
        ("exp:1..30,decorrelated", Decorrelated(base=1, cap=30)),
        ("decorrelated:1..30", Decorrelated(base=1, cap=30)),
        ("linear:1s..30s", Linear(step=1, cap=30)),
        ("linear:1s..30s,none", Linear(step=1, cap=30, jitter="none")),
        ("fib:1s..60s", Fibonacci(unit=1, cap=60)),
        ("list:1s,2s,5s", Schedule([1, 2, 5])),
        ("list:1s,2s,full", Schedule([1, 2], jitter="full")),
        ("LIST: 1s , 2s", Schedule([1, 2])),
    ],
)
def test_each_form_is_a_backoff_of_the_library(text: str, backoff: Backoff) -> None:
    assert read_wait(text) == backoff


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--wait must be one of const:2s, exp:0.5s..30s"),
        ("exp", "got 'exp'"),
        ("sometimes:1s", "got 'sometimes:1s'"),
        ("exp:1s", "--wait exp must be a range base..cap, such as exp:1s..30s, got '1s'"),
        ("exp:30s..1s", "--wait 'exp:30s..1s': base must be <= cap (1 s), got 30.0"),
        ("exp:1s..soon", "--wait cap must be a duration of 0 or more"),
        ("exp:1s..30s*0.5", "factor must be a finite number >= 1, got 0.5"),
        ("exp:1s..30s*much", "--wait factor must be a number >= 1, got 'much'"),
        ("exp:1s..30s,some", "--wait jitter must be one of full, equal, coherent, none"),
        ("exp:1s..30s,0%", "a share from 1% to 100%, got '0%'"),
        ("exp:1s..30s*2,decorrelated", "--wait decorrelated goes with exp:base..cap and no factor"),
        ("linear:1s..30s*2", "--wait linear has no factor, got '1s..30s*2'"),
        ("decorrelated:1s..30s,full", "--wait decorrelated is a jitter of its own"),
        ("list:1s,,2s", "--wait delay must be a duration of 0 or more"),
        ("const:-1s", "--wait delay must be a duration of 0 or more"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_wait(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(alphabet="expconstlinearfib:.,*%0123456789sm ", max_size=30))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        backoff, refusal = read_wait(text), None
    except ConfigError as error:
        backoff, refusal = None, str(error)
    assert isinstance(backoff, Backoff) if refusal is None else refusal.startswith("--wait")
