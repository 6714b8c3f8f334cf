"""The load: calls that start when the script says, whatever became of the ones before (open loop).

Each call has a thread of its own, so a slow one delays no other, and its time is counted from when
it was meant to start: a client that falls behind shows it in its latency and cannot hide it.
"""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perdure.cli.demo.arms import Arm, Send

REFUSED: Final = "refused"
RESET: Final = "reset"
TIMEOUT: Final = "timeout"


class Load(Protocol):
    """Which calls come when: a script of faults, or the plan of an overload."""

    @property
    def timeout(self) -> float:
        """How long a client waits for an answer."""
        ...

    def arrivals(self) -> Iterator[float]:
        """Yield when each call starts."""
        ...

    def wrong(self, call: int) -> int | None:
        """Return the status of a request that can never succeed, else None."""
        ...


class Halted(BaseException):
    """The run was interrupted: stands for the next attempt, and passes every loop that catches Exception."""


@dataclass(slots=True)
class Attempt:
    """One request as the client saw it: a status, or how it ended without one; None while it runs."""

    started: float
    result: int | str | None = None


@dataclass(slots=True)
class Call:
    """One logical call of one arm. Written by its own thread only; others may read it at any time."""

    number: int
    due: float
    wrong: int | None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    ended: float | None = None
    ok: bool = False

    @property
    def latency(self) -> float | None:
        """Seconds from when it was meant to start to its end, or None while it runs."""
        return None if self.ended is None else self.ended - self.due

    @property
    def shed(self) -> bool:
        """Whether it was refused on this side: it ended and nothing was sent."""
        return self.ended is not None and not self.attempts


class Traffic:
    """The same calls, at the same moments, through every arm.

    `start`, `halt` and `wait` are for one thread; `calls` may be read from any while it runs.
    """

    def __init__(self, load: Load, arms: Sequence[Arm], ports: Mapping[str, int]) -> None:
        """Prepare the senders; nothing is sent before `start`."""
        self.calls: dict[str, list[Call]] = {arm.name: [] for arm in arms}
        self._load = load
        self._halted = threading.Event()
        self._pending = 0
        self._change = threading.Condition()
        self._began = 0.0
        self._sends = {arm.name: arm.wrap(self._sender(ports[arm.name])) for arm in arms}
        self._feeder = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        """Take the present moment for second 0 and begin to send."""
        self._began = time.monotonic()
        self._feeder.start()

    @property
    def now(self) -> float:
        """Seconds since `start`."""
        return time.monotonic() - self._began

    def halt(self) -> None:
        """Start no call and no attempt any more; what is on the wire ends by itself."""
        self._halted.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end of all calls, and say whether it came."""
        end = time.monotonic() + timeout
        self._feeder.join(timeout)
        if self._feeder.is_alive():
            return False
        with self._change:
            return self._change.wait_for(lambda: self._pending == 0, max(0.0, end - time.monotonic()))

    def _feed(self) -> None:
        for number, due in enumerate(self._load.arrivals(), 1):
            if self._halted.wait(max(0.0, due - self.now)):
                return
            for name, send in self._sends.items():
                call = Call(number, due, self._load.wrong(number))
                self.calls[name].append(call)
                self._count(1)
                threading.Thread(target=self._run, args=(send, call), daemon=True).start()

    def _run(self, send: Send, call: Call) -> None:
        try:
            call.ok = _succeeds(send, call)
            call.ended = self.now
        except Halted:
            pass  # neither a success nor a failure: it stays without an end
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._change:
            self._pending += change
            self._change.notify_all()

    def _sender(self, port: int) -> Send:
        # No proxy from the environment: all of this traffic stays on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def send(call: Call) -> None:
            if self._halted.is_set():
                raise Halted
            attempt = Attempt(self.now)
            call.attempts.append(attempt)
            url = f"http://127.0.0.1:{port}/items/{call.number}?attempt={len(call.attempts)}"
            _fetch(lambda: opener.open(url, timeout=self._load.timeout), attempt)

        return send


def _succeeds(send: Send, call: Call) -> bool:
    try:
        send(call)
    except Exception:  # noqa: BLE001  (a failed call is a figure here; its attempts say why)
        return False
    return True


def _fetch(request: Callable[[], http.client.HTTPResponse], attempt: Attempt) -> None:
    """Make one request, note how it ended, and let the client library's own exception out."""
    try:
        with request() as response:
            response.read()
        attempt.result = response.status
    except urllib.error.HTTPError as error:
        attempt.result = error.code
        error.close()
        raise
    except (OSError, http.client.HTTPException) as error:
        attempt.result = _ending(error)
        raise


def _ending(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ConnectionRefusedError):
        return REFUSED
    return TIMEOUT if isinstance(reason, TimeoutError) else RESET
