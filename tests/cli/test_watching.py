"""What looks at passing output: the tail, and patterns wherever the pieces are cut."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.child.watching import OVERLAP, WINDOW, Matcher, Tail


def fed(matcher: Matcher, *pieces: bytes) -> bool:
    for piece in pieces:
        matcher.feed(piece)
    matcher.end()
    return bool(matcher.found)


def matcher(pattern: str) -> Matcher:
    return Matcher([re.compile(pattern.encode(), re.MULTILINE)])


@given(st.lists(st.integers(0, 40), max_size=8))
def test_a_match_is_found_however_the_output_is_cut(cuts: list[int]) -> None:
    text = b"first line\nconnection refused\nlast"
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    assert fed(matcher("connection refused$"), *(text[start:end] for start, end in pairwise(places)))


@given(st.lists(st.sampled_from([b"ERR", b"OR", b"\n", b"x"]), max_size=12))
def test_line_ends_are_real_ones_however_the_output_is_cut(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    assert fed(matcher("^ERR$"), *pieces) is bool(re.search(rb"^ERR$", text, re.MULTILINE))


def test_a_pattern_may_span_lines() -> None:
    assert fed(matcher(r"one\ntwo"), b"zero\none\n", b"two\nthree\n")


def test_a_match_before_a_flood_is_still_found() -> None:
    assert fed(matcher("early"), b"early\n", *[b"x" * 1000 + b"\n"] * 1000)


def test_memory_stays_bounded_with_lines_and_without() -> None:
    one = matcher("never")
    for piece in (b"x" * 997 + b"\n", b"y" * 1000):
        for _ in range(1000):
            one.feed(piece)
            assert len(one._bytes) <= WINDOW + OVERLAP + 1000


def test_a_match_across_the_pieces_of_one_endless_line_is_found() -> None:
    assert fed(matcher("needle"), b"h" * WINDOW, b"h" * 10 + b"nee", b"dle" + b"h" * WINDOW)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 64))
def test_the_tail_is_the_last_bytes(pieces: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.feed(piece)
    assert tail.text() == b"".join(pieces)[-limit:].decode("utf-8", "replace")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"caf\xc3"])
def test_a_tail_that_is_not_utf_8_shows_replacements(data: bytes) -> None:
    tail = Tail()
    tail.feed(data)
    assert "\ufffd" in tail.text()
