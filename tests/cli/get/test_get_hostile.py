"""`perdure get` and servers, or neighbours in a folder, that mean harm."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tests.cli.get.files import CONTENT, Step
from tests.integration import wire

if TYPE_CHECKING:
    from tests.cli.get.conftest import Get
    from tests.cli.get.files import Files


def test_a_byte_at_a_time_does_not_go_on_for_ever(get: Get, server: Files) -> None:
    server.always = Step(cut=1)
    assert get("--attempts", "3", server.url()).code == 5
    assert len(server.seen) < 10


def test_what_a_refusal_unpacks_to_is_bounded(get: Get) -> None:
    bomb = gzip.compress(gzip.compress(b"\0" * 50_000_000))
    with wire.serve(wire.answer(404, {"Content-Encoding": "gzip, gzip"}, bomb)) as refusing:
        assert get(f"{refusing.url}/file.bin").code == 4


@pytest.mark.parametrize("name", ["file.bin.part.json.new", "file.bin.part.json"])
def test_a_link_beside_the_part_is_not_written_through(get: Get, server: Files, name: str) -> None:
    other = get.folder / "other"
    other.write_text("precious")
    (get.folder / name).symlink_to(other)
    assert get(server.url()).code == 0
    assert other.read_text() == "precious"
    assert get.file() == CONTENT
