"""An answer that ends inside its headers is a lost answer, for clients that notice and for those that do not: B087.

http.client, and so urllib3 and requests, take it for an answer with an empty body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import FaultKind, content
from perdure.testing import no_waits
from tests.cases.http_sessions import Ask, clients, dependency, play
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


OK = wire.answer(body=b"ok")
CUT = {
    "in the first name": b"HTTP/1.1 200 OK\r\nContent-Le",
    "in a later name": b"HTTP/1.1 200 OK\r\nServer: one\r\nX-Two: 2\r\nContent-Le",
    "after a bad line": b"HTTP/1.1 200 OK\r\nServer: one\r\nno header\r\nContent-Le",
    "with a length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServ",
    "of a refusal": b"HTTP/1.1 404 Not Found\r\nContent-Le",
}


@clients()
def test_b087_a_safe_request_is_sent_again(client: str) -> None:
    steps = [step for cut in CUT.values() for step in (wire.garbage(cut), OK)]
    with wire.serve(*steps) as server:
        played = play(client, dependency(), *[Ask(server.url)] * len(CUT), whole=True)
    for name, end in zip(CUT, played.ends, strict=True):
        assert (end.status, end.body) == (200, b"ok"), name
        assert [record.fault.kind for record in end.attempts] == [FaultKind.AMBIGUOUS], name


@clients()
def test_b087_an_unsafe_request_is_not(client: str) -> None:
    with wire.serve(wire.cut_headers(), OK, wire.answer(body=b"next")) as server:
        played = play(client, dependency(), Ask(server.url, "POST", b"order"), Ask(server.url))
        assert len(server.requests) == 2
    error = played.ends[0]
    assert isinstance(error, Exception)
    assert "repeating it is not safe" in " ".join(error.__notes__)
    assert len(perdure.attempts_of(error)) == 1
    assert played.taken == [0, 0]


@clients("requests", "urllib3")
@pytest.mark.parametrize("end", [b"Connection: close\r\n\r\nok", b"Content-Length: 2\r\n\r\nok", b"\r\nok"])
def test_a_bad_line_in_a_whole_header_block_is_no_cut(client: str, end: bytes) -> None:
    """The client stops reading headers there, and what follows the block is still the body."""
    bad = wire.garbage(b"HTTP/1.1 200 OK\r\nServer: one\r\nthis is no header\r\n" + end)
    with wire.serve(bad) as server:
        played = play(client, dependency(), Ask(server.url))
        assert len(server.requests) == 1
    assert (played.ends[0].status, played.ends[0].body) == (200, b"ok")


@clients("requests", "urllib3")
@pytest.mark.parametrize(
    "cut", [b"HTTP/1.1 200 OK\r\nServer: o", b"HTTP/1.1 200 OK\r\nServer: one\r\n", b"HTTP/1.1 200 OK\r\n"]
)
def test_b087_what_cannot_be_told_is_found_by_its_content(client: str, cut: bytes) -> None:
    """A cut in a value, or between two headers, leaves no trace: an answer that should be JSON is empty then."""
    with wire.serve(wire.garbage(cut), wire.answer(body=b'{"a": 1}')) as server:
        played = play(client, dependency(), Ask(server.url), content=content.json)
    assert played.ends[0].body == b'{"a": 1}'
