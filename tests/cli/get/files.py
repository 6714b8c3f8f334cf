"""A file server on the loopback that errs by a script: it resets, stalls, lies and forgets, and counts requests."""

from __future__ import annotations

import hashlib
import socket
import socketserver
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

CONTENT = hashlib.shake_128(b"perdure").digest(256 * 1024)
"""What every file holds unless a test says otherwise: 256 KiB in which nothing repeats."""

ETAG = '"v1"'
BOUND = 20.0


@dataclass
class Step:
    """How one request is answered. Without any field: well, with ranges."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None  # reset the connection after so many bytes of the body
    close: bool = False  # close it before anything is said
    ranges: bool = True  # look at Range
    if_range: bool = True  # look at If-Range
    etag: str | None = ETAG
    span: str | None = None  # the Content-Range that is sent instead of the right one
    at_most: int | None = None  # a range is answered with so many bytes
    length: bool = True  # send Content-Length
    hold: threading.Event | None = None  # wait for it before the answer
    drip: float | None = None  # so many seconds between two bytes
    pause: threading.Event | None = None  # wait for it after half of the body
    reached: threading.Event = field(default_factory=threading.Event)  # set when it holds or pauses


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


class Files:
    """The server. ``script`` holds what the next requests meet, one after the other; then ``always`` does."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.script: list[Step] = []
        self.always = Step()
        self.seen: list[Seen] = []
        self._met: list[Step] = []
        self.asked = threading.Event()  # a request has come
        self.over = threading.Event()  # nobody needs the server any more
        self._lock = threading.Lock()
        files = self

        class Handler(_Handler):
            owner = files

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, path: str = "/file.bin") -> str:
        return f"http://{self.host}{path}"

    def next_step(self, seen: Seen) -> Step:
        with self._lock:
            self.seen.append(seen)
            self.asked.set()
            step = self.script.pop(0) if self.script else self.always
            self._met.append(step)
            return step

    @property
    def ranges(self) -> list[str | None]:
        """The Range headers of all requests."""
        return [one.headers.get("range") for one in self.seen]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for step in self._met:
            for event in (step.hold, step.pause):
                if event is not None:
                    event.set()
        self.over.set()
        self._server.shutdown()
        self._thread.join(BOUND)
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """A client that goes away is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    owner: Files
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self) -> None:
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        sent = self.rfile.read(int(headers.get("content-length", 0)))
        step = self.owner.next_step(Seen(self.command, self.path, headers, sent))
        if step.hold is not None:
            step.reached.set()
            step.hold.wait(BOUND)
        if step.close:
            return
        if step.status is not None and step.status not in (200, 206):
            self.refuse(step)
            return
        self.serve(step, headers)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = answer  # noqa: N815 - the names that http.server looks for

    def refuse(self, step: Step) -> None:
        body = step.body or b""
        self.send_response_only(step.status or 500)
        for name, value in step.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def serve(self, step: Step, headers: dict[str, str]) -> None:
        content = self.owner.content if step.body is None else step.body
        start = self.start_of(step, headers)
        if start is not None and start >= len(content):
            step.status, step.headers = 416, {"Content-Range": f"bytes */{len(content)}"} | self.tag(step)
            self.refuse(step)
            return
        whole = len(content)
        if start is not None and step.at_most is not None:
            content = content[: start + step.at_most]
        body = content[start or 0 :]
        self.send_response_only(step.status or (200 if start is None else 206))
        for name, value in (self.tag(step) | step.headers).items():
            self.send_header(name, value)
        if start is not None or step.span is not None:
            right = f"bytes {start}-{len(content) - 1}/{whole}"
            self.send_header("Content-Range", step.span or right)
        if step.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(step, body)

    def start_of(self, step: Step, headers: dict[str, str]) -> int | None:
        wanted = headers.get("range", "")
        if not step.ranges or not wanted.startswith("bytes="):
            return None
        condition = headers.get("if-range")
        if (
            step.if_range
            and condition is not None
            and condition not in (step.etag, step.headers.get("Last-Modified"))
        ):
            return None
        return int(wanted.removeprefix("bytes=").partition("-")[0])

    def tag(self, step: Step) -> dict[str, str]:
        return {} if step.etag is None else {"ETag": step.etag}

    def send_body(self, step: Step, body: bytes) -> None:
        if step.cut is not None:
            self.wfile.write(body[: step.cut])
            self.reset()
            return
        if step.drip is not None:
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.owner.over.wait(step.drip)
        if step.pause is not None:
            self.wfile.write(body[: len(body) // 2])
            step.reached.set()
            step.pause.wait(BOUND)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def reset(self) -> None:
        """Go away without a word, after what was sent has been read."""
        self.connection.shutdown(socket.SHUT_WR)
        while self.connection.recv(65_536):
            pass
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
