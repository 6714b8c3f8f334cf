"""A download that breaks off goes on where it was, if and only if the content is proven to be the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.get.files import CONTENT, Step

if TYPE_CHECKING:
    from tests.cli.get.conftest import Get
    from tests.cli.get.files import Files

SHA256 = hashlib.sha256(CONTENT).hexdigest()
DATES = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"}


def test_what_is_whole_at_once_is_one_request_and_one_line(get: Get, server: Files) -> None:
    done = get(server.url())
    assert done.code == 0, done.err
    assert get.file() == CONTENT
    assert get.names() == {"file.bin"}
    assert len(server.seen) == 1
    assert server.seen[0].headers["accept-encoding"] == "identity"
    assert done.err.startswith("perdure: saved file.bin: 262 kB in ")
    assert done.out == b""


def test_a_body_cut_short_goes_on_from_the_last_byte(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(cut=5000)]
    done = get("--json", server.url())
    assert done.code == 0
    assert get.file() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=6000-"]
    assert [one.headers.get("if-range") for one in server.seen] == [None, '"v1"', '"v1"']
    assert [one["bytes"] for one in done.report["attempts"]] == [1000, 5000, len(CONTENT) - 6000]
    assert [one["offset"] for one in done.report["attempts"]] == [0, 1000, 6000]
    assert get.names() == {"file.bin"}


def test_attempts_that_get_further_are_counted_anew(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000 * n) for n in range(1, 9)]
    done = get("--attempts", "2", server.url())
    assert done.code == 0, done.err
    assert len(server.seen) == 9
    assert len(done.waits) == 8


def test_a_count_that_begins_anew_is_said(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(cut=1000), Step(cut=1000), Step(status=503)]
    done = get("--wait", "const:1s", "--json", server.url())
    first, second, third, fourth, _ = done.err.splitlines()
    assert first.startswith("perdure: attempt 1 of 4 failed: ")
    assert first.endswith(" (1 kB came); next in 1 s")
    for again in (second, third):
        assert again.startswith("perdure: attempt 2 of 4 failed: ")
        assert again.endswith(" (1 kB came); got further, counting anew; next in 1 s")
    assert fourth.startswith("perdure: attempt 2 of 4 got HTTP 503 ")
    assert fourth.endswith("; next in 1 s")
    assert [one["attempt"] for one in done.report["attempts"]] == [1, 2, 3, 4, 5]


def test_attempts_that_do_not_get_further_are_not(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000)]
    server.always = Step(cut=0)
    done = get("--attempts", "3", server.url())
    assert done.code == 5
    assert len(server.seen) == 3
    assert "gave up" in done.err
    assert "the same command goes on from there" in done.err
    assert "1 kB are kept in" in done.err
    assert get.names() == {"file.bin.part", "file.bin.part.json"}


def test_waits_begin_anew_too(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(status=503), Step(cut=1000), Step(status=503)]
    assert get("--wait", "list:1s,2s,3s", server.url()).waits == [1, 2, 1, 2]


def test_what_nothing_proves_is_not_promised(get: Get, server: Files) -> None:
    server.always = Step(cut=1000, etag=None)
    done = get("--attempts", "1", server.url())
    assert done.err.rstrip().endswith(
        "1 kB are left in {}, and another run starts again".format((get.folder / "file.bin.part").resolve())
    )


def test_without_ranges_the_same_bytes_again_are_no_progress(get: Get, server: Files) -> None:
    server.always = Step(cut=1000, ranges=False)
    assert get("--attempts", "3", server.url()).code == 5
    assert len(server.seen) == 3


def test_a_later_run_goes_on_where_the_first_one_stopped(get: Get, server: Files) -> None:
    server.script = [Step(cut=70_000)]
    assert get("--attempts", "1", server.url()).code == 5
    assert get.file("file.bin.part") == CONTENT[:70_000]
    assert "file.bin" not in get.names()
    done = get("--json", server.url())
    assert done.code == 0
    assert done.report["resumed_from"] == 70_000
    assert done.report["received"] == len(CONTENT) - 70_000
    assert server.ranges == [None, "bytes=70000-"]
    assert get.file() == CONTENT
    assert get.names() == {"file.bin"}
    assert "70 kB of them from before" in done.err


def test_another_content_is_fetched_from_its_first_byte(get: Get, server: Files) -> None:
    server.script = [Step(cut=70_000)]
    get("--attempts", "1", server.url())
    server.content = CONTENT[::-1]
    server.always = Step(etag='"v2"')
    assert get(server.url()).code == 0
    assert get.file() == CONTENT[::-1]
    assert server.ranges == [None, "bytes=70000-"]


@pytest.mark.parametrize(
    ("first", "condition"),
    [
        (Step(etag=None, headers=DATES), DATES["Last-Modified"]),
        (Step(etag='W/"v1"', headers=DATES), DATES["Last-Modified"]),
        (Step(etag=None, headers=DATES | {"Date": DATES["Last-Modified"]}), None),
        (Step(etag=None), None),
        (Step(etag='W/"v1"'), None),
    ],
)
def test_only_a_strong_validator_is_a_reason_to_go_on(
    get: Get, server: Files, first: Step, condition: str | None
) -> None:
    """A weak entity tag, and a date that a second change could share, prove nothing (RFC 9110, 13.1.5)."""
    first.cut = 1000
    server.script = [first]
    server.always = Step(etag=first.etag, headers=DATES)
    assert get(server.url()).code == 0
    assert get.file() == CONTENT
    assert server.seen[1].headers.get("if-range") == condition
    assert server.ranges[1] == ("bytes=1000-" if condition else None)


@pytest.mark.parametrize(
    "lie",
    [
        Step(span="bytes 0-262143/262144"),
        Step(span="bytes 1001-262143/262144"),
        Step(span="bytes 1000-262143/999999"),
        Step(span="bytes 5000-4000/262144"),
        Step(span="items 1000-262143/262144"),
        Step(etag='"v2"', if_range=False),
        Step(status=206, ranges=False, span="bytes 1000-2000/262144"),
    ],
    ids=lambda step: f"{step.span} {step.etag}",
)
def test_a_server_that_lies_about_its_ranges_is_asked_for_everything(
    get: Get, server: Files, lie: Step
) -> None:
    server.script = [Step(cut=1000), lie]
    done = get(server.url())
    assert done.code == 0, done.err
    assert get.file() == CONTENT
    assert server.ranges[-1] is None
    assert "starting again from the first byte" in done.err


def test_a_server_that_sends_a_range_in_pieces_is_asked_for_the_next(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(at_most=100_000), Step(at_most=100_000)]
    done = get("--attempts", "2", server.url())
    assert done.code == 0, done.err
    assert get.file() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=101000-", "bytes=201000-"]
    assert "the body ended after 101000 of 262144 bytes" in done.err


def test_a_whole_answer_to_a_range_starts_again(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(ranges=False)]
    assert get(server.url()).code == 0
    assert get.file() == CONTENT
    assert len(server.seen) == 2


def test_a_complete_part_becomes_the_file(get: Get, server: Files) -> None:
    """All bytes came and then the power went: the server's 416 says that nothing is missing."""
    server.script = [Step(cut=1000)]
    get("--attempts", "1", server.url())
    (get.folder / "file.bin.part").write_bytes(CONTENT)
    done = get("--json", server.url())
    assert done.code == 0
    assert get.file() == CONTENT
    assert done.report["received"] == 0
    assert [one["status"] for one in done.report["attempts"]] == [416]


def test_a_416_that_proves_nothing_starts_again(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(status=416, headers={"Content-Range": "bytes */500"})]
    assert get(server.url()).code == 0
    assert get.file() == CONTENT
    assert server.ranges == [None, "bytes=1000-", None]


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (b"", None),
        (b"x" * 300_000, {"schema": "perdure.part/1", "id": "x", "etag": '"v1"', "length": 262_144}),
        (b"x" * 10, None),
        (b"x" * 10, "not JSON"),
        (b"x" * 10, {"schema": "other/1", "id": "x", "etag": '"v1"'}),
        (b"x" * 10, {"schema": "perdure.part/1", "id": 5, "etag": ["v1"], "length": "ten"}),
        (b"x" * 10, [1, 2]),
    ],
)
def test_a_part_that_is_no_part_of_it_is_dropped(get: Get, server: Files, part: bytes, note: object) -> None:
    (get.folder / "file.bin.part").write_bytes(part)
    if note is not None:
        text = note if isinstance(note, str) else json.dumps(note)
        (get.folder / "file.bin.part.json").write_text(text)
    assert get(server.url()).code == 0
    assert get.file() == CONTENT
    assert server.ranges == [None]
    assert get.names() == {"file.bin"}


def test_no_resume_drops_what_is_there(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000)]
    get("--attempts", "1", server.url())
    server.script = [Step(cut=500)]
    assert get("--no-resume", server.url()).code == 0
    assert server.ranges == [None, None, None]
    assert get.file() == CONTENT


def test_the_old_file_stays_until_the_new_one_is_whole(get: Get, server: Files) -> None:
    target = get.folder / "file.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    server.always = Step(cut=1000)
    assert get("--attempts", "1", server.url()).code == 5
    assert target.read_bytes() == b"old"
    server.always = Step()
    assert get(server.url()).code == 0
    assert target.read_bytes() == CONTENT
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("length", [True, False])
def test_an_empty_file_is_a_file(get: Get, server: Files, *, length: bool) -> None:
    server.always = Step(body=b"", length=length)
    assert get(server.url()).code == 0
    assert get.file() == b""
    assert get.names() == {"file.bin"}


def test_an_unknown_length_is_fine(get: Get, server: Files) -> None:
    server.always = Step(length=False)
    assert get(server.url()).code == 0
    assert get.file() == CONTENT


def test_more_than_was_announced_is_not_kept(get: Get, server: Files) -> None:
    """A 206 whose body goes on past its range."""
    server.script = [Step(cut=1000), Step(span="bytes 1000-1999/262144", length=False)]
    done = get(server.url())
    assert done.code == 0, done.err
    assert get.file() == CONTENT


# Checksums


@pytest.mark.parametrize(
    "option",
    [
        ("--sha256", SHA256),
        ("--sha256", SHA256.upper()),
        ("--checksum", f"sha256:{SHA256}"),
        ("--checksum", f"sha-512:{hashlib.sha512(CONTENT).hexdigest()}"),
        ("--checksum", f"md5:{hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()}"),
    ],
)
def test_a_right_checksum_is_verified(get: Get, server: Files, option: tuple[str, str]) -> None:
    assert get(*option, server.url()).code == 0
    assert get.file() == CONTENT


def test_a_wrong_checksum_is_tried_once_more_and_then_exit_1(get: Get, server: Files) -> None:
    (get.folder / "file.bin").write_bytes(b"old")
    done = get("--json", "--sha256", "0" * 64, server.url())
    assert done.code == 1
    assert get.file() == b"old"
    assert get.names() == {"file.bin"}, "what is wrong is not kept"
    assert len(server.seen) == 2
    assert done.report["stop"] == "checksum"
    assert f"sha256 is {SHA256}, not {'0' * 64}" in done.err


def test_a_resumed_part_that_was_wrong_is_fetched_again(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000)]
    get("--attempts", "1", server.url())
    (get.folder / "file.bin.part").write_bytes(b"x" * 1000)
    assert get("--sha256", SHA256, server.url()).code == 0
    assert get.file() == CONTENT
    assert server.ranges == [None, "bytes=1000-", None]


def test_a_checksum_allows_to_go_on_without_a_validator(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000, etag=None)]
    server.always = Step(etag=None)
    assert get("--sha256", SHA256, server.url()).code == 0
    assert server.ranges == [None, "bytes=1000-"]
    assert get.file() == CONTENT
