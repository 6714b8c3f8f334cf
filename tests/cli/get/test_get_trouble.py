"""Trouble on this side: no room, no permission, two at once; and streams, which cannot be taken back."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sys
from typing import TYPE_CHECKING

import pytest

from perdure.cli.get import part
from tests.cli.get.files import CONTENT, ETAG, Step

if TYPE_CHECKING:
    from tests.cli.get.conftest import Get
    from tests.cli.get.files import Files

SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_a_full_disk_keeps_what_is_there(get: Get, server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    real = part._write

    def write(fd: int, data: bytes, name: str) -> int:
        if os.fstat(fd).st_size >= 10_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        return real(fd, data[:10_000], name)

    with monkeypatch.context() as patched:
        patched.setattr(part, "_write", write)
        done = get(server.url())
    assert done.code == 125
    assert len(server.seen) == 1, "the server cannot help"
    assert done.err.splitlines()[-1].endswith("file.bin.part: No space left on device")
    assert get.file("file.bin.part") == CONTENT[:10_000]
    assert get(server.url()).code == 0
    assert get.file() == CONTENT


def test_a_device_is_written_and_not_replaced(get: Get, server: Files) -> None:
    assert get("-o", os.devnull, server.url()).code == 0
    if sys.platform == "linux":
        done = get("-o", "/dev/full", server.url())
        assert done.code == 125
        assert done.err == "perdure: /dev/full: No space left on device\n"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("none/file", "No such file or directory"),
        ("plain/file", "Not a directory"),
        ("linked", "symbolic link"),
    ],
)
def test_a_target_that_cannot_be_written_is_told_before_anything_is_asked(
    get: Get, server: Files, output: str, words: str
) -> None:
    (get.folder / "plain").write_text("x")
    (get.folder / "linked.part").symlink_to("plain")
    done = get("-o", output, server.url())
    assert done.code == 125
    assert words in done.err
    assert done.err.count("\n") == 1
    assert server.seen == []
    assert (get.folder / "plain").read_text() == "x"


def test_a_link_is_followed_and_stays_a_link(get: Get, server: Files) -> None:
    (get.folder / "real").write_text("old")
    (get.folder / "link").symlink_to("real")
    assert get("-o", "link", server.url()).code == 0
    assert get.file("real") == CONTENT
    assert (get.folder / "link").is_symlink()


def test_two_at_once_do_not_mix(get: Get, server: Files) -> None:
    with (get.folder / "file.bin.part").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = get(server.url())
    assert done.code == 3
    assert server.seen == []
    assert done.err.startswith("perdure: not started: another process is writing ")


# Standard output


def test_standard_output_gets_each_byte_once(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(status=503), Step(cut=1000)]
    done = get("-o", "-", server.url())
    assert done.code == 0
    assert done.out == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=2000-"]
    assert get.names() == set()


def test_the_same_content_from_its_start_is_passed_over(get: Get, server: Files) -> None:
    server.script = [Step(cut=100_000)]
    server.always = Step(ranges=False)
    done = get("-o", "-", server.url())
    assert done.code == 0
    assert done.out == CONTENT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Step(etag=None), Step()),
        (Step(), Step(etag='"v2"')),
        (Step(), Step(etag=None, ranges=False)),
        (Step(), Step(span="bytes 0-10/262144")),
    ],
)
def test_what_cannot_be_continued_there_ends_clearly(
    get: Get, server: Files, first: Step, second: Step
) -> None:
    first.cut = 1000
    server.script, server.always = [first], second
    done = get("-o", "-", server.url())
    assert done.code == 5
    assert done.out == CONTENT[:1000]
    assert "1000 bytes are written to standard output and cannot be taken back" in done.err
    assert done.err.rstrip().endswith("cannot be resumed")


@pytest.mark.parametrize(("digest", "code"), [(SHA256, 0), ("0" * 64, 1)])
def test_a_stream_is_checked_at_its_end(get: Get, server: Files, digest: str, code: int) -> None:
    server.script = [Step(cut=1000, etag=None)]
    server.always = Step(etag=None)
    done = get("-o", "-", "--sha256", digest, server.url())
    assert done.code == code
    assert done.out == CONTENT
    assert server.ranges == [None, "bytes=1000-"]


def test_the_note_beside_a_part_is_written_before_its_first_byte(
    get: Get, server: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a part never lies beside the note of another content."""
    seen: list[str] = []
    real = part._write

    def write(fd: int, data: bytes, name: str) -> int:
        seen.append((get.folder / "file.bin.part.json").read_text())
        return real(fd, data, name)

    monkeypatch.setattr(part, "_write", write)
    assert get(server.url()).code == 0
    assert ETAG[1:-1] in seen[0]
    assert str(len(CONTENT)) in seen[0]
