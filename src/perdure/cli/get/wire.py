"""One request on the wire, in a thread of its own, so that it can be waited for, raced and dropped.

The thread opens a connection, follows redirects and says what came back; it reads the body only once it is told
to, for of several requests only one is wanted. Whoever waits does so on one queue for all of them, which is
short: a fast server waits for a slow disk.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import unquote
from urllib.request import getproxies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    import httpx

    from perdure.cli.get.record import Request

    Message = tuple["Call", str, Any]

__all__ = ["Call", "Clients", "Head", "NotFollowed", "messages"]

REDIRECTS = 10
CONNECT = 10.0
"""Seconds for a connection, at most."""

_EXPLAINED = 16_384  # bytes of the body of a refusal that are looked at
_ANYWHERE = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_POLL = 0.1
_QUEUED = 16


class NotFollowed(Exception):
    """A redirect that leads nowhere good."""


class Head(NamedTuple):
    """What came before the body. ``body`` is the beginning of that of a refusal; ``url`` where it came from."""

    status: int
    headers: httpx.Headers
    url: str
    body: bytes = b""


class Clients:
    """Clients that keep no connection: after a failure a fresh one is worth more than a fast one.

    One for each way to look at certificates, made when first needed, as reading those of the system takes longer
    than many a download. Safe from any thread.
    """

    def __init__(self, stall: float) -> None:
        self._stall = stall
        self._lock = threading.Lock()
        self._made: dict[bool, httpx.Client] = {}

    def of(self, url: httpx.URL) -> httpx.Client:
        """The client for a URL."""
        verifies = url.scheme == "https" or bool(getproxies())
        with self._lock:
            if verifies not in self._made:
                self._made[verifies] = self._make(verifies=verifies)
            return self._made[verifies]

    def close(self) -> None:
        """Close what is open."""
        for one in self._made.values():
            one.close()

    def _make(self, *, verifies: bool) -> httpx.Client:
        import ssl

        import httpx

        return httpx.Client(
            verify=True if verifies else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # which trusts nobody
            timeout=httpx.Timeout(self._stall, connect=min(CONNECT, self._stall)),
            limits=httpx.Limits(max_keepalive_connections=0),
            follow_redirects=False,
        )


def messages() -> queue.Queue[Message]:
    """The queue that calls put their messages in."""
    return queue.Queue(_QUEUED)


class Call:
    """One request. Messages: ("head", Head), ("data", bytes), ("end", None), ("error", the exception)."""

    def __init__(
        self, clients: Clients, request: Request, url: str, more: dict[str, str], out: queue.Queue[Message]
    ) -> None:
        self.connected: float | None = None
        self.first_byte: float | None = None
        self._clients = clients
        self._request = request
        self._url = url
        self._more = more
        self._out = out
        self._wanted = threading.Event()
        self._dropped = False
        self._wire: Any = None
        self._thread = threading.Thread(target=self._run, name="perdure-get", daemon=True)

    def start(self) -> None:
        """Send it."""
        self._thread.start()

    def want(self) -> None:
        """Read the body too."""
        self._wanted.set()

    def drop(self) -> None:
        """Close it, whatever it is doing; what it still says is not put anywhere."""
        self._dropped = True
        self._wanted.set()
        with contextlib.suppress(Exception):  # closed already, or not there yet
            self._wire.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def join(self, limit: float) -> None:
        """Wait for its thread for so many seconds; one that is still connecting ends by itself."""
        self._thread.join(limit)

    def _run(self) -> None:
        try:
            with self._opened() as response:
                head = self._head(response)
                self._say("head", head)
                self._wanted.wait()
                if not self._dropped:
                    for data in response.iter_raw():
                        self._say("data", data)
                    self._say("end", None)
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            self._say("error", error)

    def _head(self, response: httpx.Response) -> Head:
        self.first_byte = time.monotonic()
        body = b""
        if response.status_code >= 400 and self._request.method != "HEAD":
            with contextlib.suppress(Exception):  # the status counts, whatever becomes of its explanation
                for data in response.iter_raw():  # as it came: a body may unpack to gigabytes
                    body += data
                    if len(body) >= _EXPLAINED:
                        break
            from perdure.integrations.shared.decoding import unpacked

            body = unpacked(body, response.headers.get("content-encoding"), _EXPLAINED)
        return Head(response.status_code, response.headers, str(response.request.url), body)

    @contextlib.contextmanager
    def _opened(self) -> Generator[httpx.Response]:
        import httpx

        url, basic = _without_credentials(httpx.URL(self._url))
        method, data = self._request.method, self._request.data
        headers = {**dict(self._request.headers), **self._more}
        if basic and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = basic
        for _ in range(REDIRECTS + 1):
            with _body(data) as content:
                http = self._clients.of(url)
                lines = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
                sent = http.build_request(
                    method,
                    url,
                    headers=lines,
                    content=content,
                    extensions={"trace": self._trace},
                )
                response = http.send(sent, stream=True, auth=None)
            try:
                target = _redirected(response)
                if target is None:
                    yield response
                    return
            finally:
                response.close()
            method, data, headers = _for_redirect(response, target, method, data, headers)
            url = target
        raise NotFollowed(f"more than {REDIRECTS} redirects")

    def _trace(self, name: str, info: dict[str, Any]) -> None:
        if name.endswith((".connect_tcp.complete", ".start_tls.complete", ".connect_unix_socket.complete")):
            self._wire = info.get("return_value")
            self.connected = time.monotonic()
            if self._dropped:
                self.drop()

    def _say(self, kind: str, value: object) -> None:
        while not self._dropped:
            try:
                self._out.put((self, kind, value), timeout=_POLL)
            except queue.Full:
                continue
            return


def _without_credentials(url: httpx.URL) -> tuple[httpx.URL, str]:
    """The URL without user and password, and these as a header."""
    if not url.userinfo:
        return url, ""
    user, _, password = url.userinfo.partition(b":")
    plain = f"{unquote(user.decode())}:{unquote(password.decode())}".encode()
    return url.copy_with(userinfo=b""), "Basic " + b64encode(plain).decode("ascii")


def _redirected(response: httpx.Response) -> httpx.URL | None:
    """Where a response sends us; None where it does not."""
    import httpx

    if response.status_code not in (301, 302, 303, 307, 308) or "location" not in response.headers:
        return None
    here = response.request.url
    try:
        target = here.join(response.headers["location"])
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise NotFollowed("a redirect to something that is no URL") from None
    if target.scheme not in ("http", "https") or not target.host:
        raise NotFollowed(f"a redirect to a URL of scheme {target.scheme!r}")
    if here.scheme == "https" and target.scheme == "http":
        raise NotFollowed("a redirect from https to http")
    return target.copy_with(userinfo=b"")


def _for_redirect(
    response: httpx.Response,
    target: httpx.URL,
    method: str,
    data: bytes | str | None,
    headers: dict[str, str],
) -> tuple[str, bytes | str | None, dict[str, str]]:
    """What is sent to where a redirect leads; another origin gets nothing that could be a secret."""
    status, here = response.status_code, response.request.url
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, data = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    same = (here.scheme, here.host, here.port) == (target.scheme, target.host, target.port)
    # The scheme may become safer: http to https of the same host is where every second site sends its visitors
    if not same and not (here.host == target.host and target.scheme == "https" and target.port is None):
        ours = _ANYWHERE | {"range", "if-range", "accept-encoding"}
        headers = {name: value for name, value in headers.items() if name.lower() in ours}
    return method, data, {name: value for name, value in headers.items() if name.lower() != "host"}


@contextlib.contextmanager
def _body(data: bytes | str | None) -> Generator[Any]:
    if isinstance(data, str):
        with open(data, "rb") as file:  # noqa: PTH123
            yield file
    else:
        yield data
