"""What is kept: output held back in a spool, and stdin for the attempts that follow."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.child.replay import Replay, size_words
from perdure.cli.child.spool import Spool


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_a_spool_gives_back_what_it_got_in_memory_and_in_a_file(pieces: list[bytes], memory: int) -> None:
    spool = Spool(memory)
    for piece in pieces:
        spool.append(piece)
    whole = b"".join(pieces)
    assert spool.size == len(whole)
    assert spool.read(0, len(whole) + 1) == whole
    assert spool.read(3, 4) == whole[3:7]
    fd = spool.as_file()
    assert os.read(fd, len(whole) + 1) == whole
    spool.close()
    assert (spool.size, spool.read(0, 10)) == (0, b"")


def replay_of(data: bytes, limit: int) -> Replay:
    ours, theirs = os.pipe()
    os.write(theirs, data)
    os.close(theirs)
    return Replay(ours, limit=limit)


def drained(replay: Replay, *, keep: bool = True) -> bytes:
    data = b""
    while piece := replay.take(keep=keep):
        data += piece
    os.close(replay.fd)
    return data


def test_a_stream_is_read_once_and_given_again() -> None:
    replay = replay_of(b"abc", 3)
    assert replay.read(0) is None
    assert drained(replay) == b"abc"
    assert (replay.read(0), replay.read(1), replay.read(3)) == (b"abc", b"bc", b"")
    assert replay.whole


def test_a_stream_over_the_limit_passes_through_and_says_that_it_cannot_be_given_again() -> None:
    replay = replay_of(b"abcd", 3)
    assert drained(replay) == b"abcd"
    assert not replay.whole
    assert replay.why_not == "stdin is larger than --stdin-limit (3 bytes) and cannot be given again"


def test_what_no_attempt_can_need_is_not_kept() -> None:
    replay = replay_of(b"abc", 100)
    assert drained(replay, keep=False) == b"abc"
    assert not replay.whole


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1000, "1000 bytes"), (2048, "2 KiB"), (256 << 20, "256 MiB"), (1 << 30, "1 GiB")],
)
def test_sizes_are_written_for_people(count: int, words: str) -> None:
    assert size_words(count) == words
