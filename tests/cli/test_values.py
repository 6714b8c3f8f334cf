"""What is written on the command line becomes values, or one line that names field, range and value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli import values
from perdure.errors import ConfigError
from perdure.policies import FOREVER


@pytest.mark.parametrize(
    ("text", "attempts"), [("1", 1), (" 12 ", 12), ("unlimited", None), ("Unlimited", None)]
)
def test_attempts_are_a_number_or_the_word_unlimited(text: str, attempts: int | None) -> None:
    assert values.read_attempts(text, "--attempts") == attempts


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "none", "٣", "9" * 30])
def test_other_attempts_are_refused_with_field_range_and_value(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        values.read_attempts(text, "--attempts")
    assert str(refused.value) == f'--attempts must be a whole number >= 1 or "unlimited", got {text!r}'


@pytest.mark.parametrize(
    ("text", "members"),
    [("1", {1}), ("1,75,100-102", {1, 75, 100, 101, 102}), (" 2 , 4-4 ", {2, 4}), ("255", {255})],
)
def test_exit_codes_are_numbers_and_ranges(text: str, members: set[int]) -> None:
    codes = values.read_codes(text, "--retry-exit")
    assert (codes.text, codes.members) == (text, members)


@pytest.mark.parametrize(
    ("text", "part"), [("0", "0"), ("256", "256"), ("5-3", "5-3"), ("1,,2", ""), ("1,x", "x")]
)
def test_a_wrong_exit_code_is_named_with_the_range(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match="--stop-exit must be exit codes from 1 to 255") as refused:
        values.read_codes(text, "--stop-exit")
    assert f"got {part!r}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64k", 65536),
        ("1KiB", 1024),
        ("2 MB".replace(" ", ""), 2 << 20),
        ("1G", 1 << 30),
    ],
)
def test_sizes_count_in_powers_of_1024(text: str, size: int) -> None:
    assert values.read_size(text, "--stdin-limit") == size


@pytest.mark.parametrize("text", ["", "-1", "k", "1.5M", "1T", "lots"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--stdin-limit must be a size of 0 bytes or more") as refused:
        values.read_size(text, "--stdin-limit")
    assert str(refused.value).endswith(f"got {text!r}")


def test_a_pattern_sees_bytes_and_lines() -> None:
    pattern = values.read_pattern("^é$", "--retry-match")
    assert pattern.search("a\né\nb".encode())


def test_a_broken_pattern_says_where_it_breaks() -> None:
    with pytest.raises(
        ConfigError, match=r"--retry-match must be a regular expression, got '\[a': unterminated"
    ):
        values.read_pattern("[a", "--retry-match")


def test_endings_are_mapped_to_codes() -> None:
    mapped = values.read_exit_map(["exhausted=75, timeout=4", "deadline=child"], "--map-exit")
    assert mapped == {"exhausted": 75, "timeout": 4, "deadline": None}


@pytest.mark.parametrize("text", ["exhausted", "exhausted=256", "exhausted=x", "success=1", "=1", ""])
def test_a_wrong_ending_or_code_is_refused_with_all_names(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        values.read_exit_map([text], "--map-exit")
    assert "exhausted, deadline, timeout, stopped, unreplayable" in str(refused.value)
    assert str(refused.value).endswith(f"got {text!r}")


def test_a_deadline_is_a_duration_or_forever_in_words() -> None:
    assert values.read_deadline("1m30s", "--deadline") == 90
    assert values.read_deadline("forever", "--deadline") is FOREVER
    with pytest.raises(ConfigError, match="--deadline must be a duration of more than 0, got '0s'"):
        values.read_deadline("0s", "--deadline")


@given(st.sets(st.integers(1, 255), min_size=1))
def test_any_set_of_exit_codes_reads_back(codes: set[int]) -> None:
    assert values.read_codes(",".join(map(str, codes)), "f").members == codes


@given(st.text())
def test_no_text_breaks_a_reader(text: str) -> None:
    """Whatever is written, it is read or refused by ConfigError."""
    readers = (
        values.read_attempts,
        values.read_codes,
        values.read_size,
        values.read_deadline,
        values.read_pattern,
    )
    for read in readers:
        refusal = None
        try:
            read(text, "field")
        except ConfigError as error:
            refusal = str(error)
        assert refusal is None or refusal.startswith("field must be")
