"""Requests: one, or several that race for the first byte, and what comes of them put where it belongs."""

from __future__ import annotations

import queue
import time

from perdure.cli.get.content import COMPLETE, Content
from perdure.cli.get.mirrors import hopeful
from perdure.cli.get.record import Attempt, Failed, Restart
from perdure.cli.get.redact import shown
from perdure.cli.get.wire import Call, NotFollowed, messages
from perdure.durations import human
from perdure.faults import Fault, FaultKind, classify, fault_of_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from perdure.cli.get.content import Place
    from perdure.cli.get.part import Part, Stream
    from perdure.cli.get.record import Mirror, Request
    from perdure.cli.get.wire import Clients, Head

    class Watcher(Protocol):
        """Who is told what happens."""

        def begun(self, attempt: Attempt) -> None: ...
        def over(self, attempt: Attempt) -> None: ...
        def restarted(self, attempt: Attempt, why: str) -> None: ...
        def moved(self, have: int, total: int | None) -> None: ...
        def idle(self) -> None: ...


__all__ = ["Asking"]

JOIN = 1.0
"""Seconds that threads of dropped requests get to end; one that is connecting ends later, by itself."""

TICK = 0.2
"""Seconds between two looks at the time while nothing comes."""

LOST = "lost"


class Asking:
    """Sends the requests of one run. One thread, one use. ``end`` is a moment of the monotonic clock."""

    def __init__(
        self,
        request: Request,
        sink: Part | Stream,
        clients: Clients,
        watcher: Watcher,
        *,
        end: float | None,
    ) -> None:
        self.made = 0
        self.content = Content(request, sink)
        self._request = request
        self._clients = clients
        self._watcher = watcher
        self._end = end
        self._began = time.monotonic()

    def ask(self, mirror: Mirror, backups: list[Mirror], round_: int, asked: set[Mirror]) -> None:
        """Ask a mirror, and after the hedge's delay the next ones, until all is here.

        What cannot be continued is asked for once more from its start. Those that were sent a request are added to
        ``asked``. Raises Failed, OSError.
        """
        try:
            return _Race(self, [mirror, *backups], round_, asked, whole=False).run()
        except Restart as restart:
            again = restart.mirror
        return _Race(self, [again], round_, asked, whole=True).run()

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began


class _Race:
    """One request and, with a hedge, those that follow it; the first that delivers is kept."""

    def __init__(
        self, asking: Asking, mirrors: list[Mirror], round_: int, asked: set[Mirror], *, whole: bool
    ) -> None:
        self._asking = asking
        self._request = asking._request
        self._waiting = mirrors  # not asked yet
        self._round = round_
        self._asked = asked
        self._whole = whole
        self._running: dict[Call, tuple[Mirror, Attempt]] = {}
        self._calls: list[Call] = []
        self._failures: list[Failed] = []
        self._out = messages()
        self._last_sign = self._last_sent = time.monotonic()
        timeout = self._request.policy.attempt_timeout
        ends = [one for one in (asking._end, timeout and self._last_sent + timeout) if one is not None]
        self._limit = min(ends, default=float("inf"))

    def run(self) -> None:
        """Raises Failed, Restart, OSError; whatever happens, no request goes on afterwards."""
        try:
            self._send()
            call, head = self._first()
            self._finish(call, head)
        finally:
            for call in self._calls:
                call.drop()
            for call in tuple(self._running):
                self._over(call, LOST)
            end = time.monotonic() + JOIN
            for call in self._calls:
                call.join(max(0.0, end - time.monotonic()))

    # Until one answers

    def _send(self) -> None:
        mirror = self._waiting.pop(0)
        self._asked.add(mirror)
        asking = self._asking
        offset, headers = asking.content.wanted(mirror, whole=self._whole)
        asking.made += 1
        hedge = bool(self._calls)
        attempt = Attempt(asking.made, self._round, shown(mirror.url), asking.now(), offset, hedge=hedge)
        call = Call(asking._clients, self._request, mirror.url, headers, self._out)
        self._calls.append(call)
        self._running[call] = mirror, attempt
        self._last_sent = self._last_sign = time.monotonic()
        asking._watcher.begun(attempt)
        call.start()

    def _first(self) -> tuple[Call, Head]:
        """The first that delivers; the others are dropped. Raises Failed when none does."""
        while self._running:
            call, kind, value = self._next(self._hedge_at())
            if call is None:
                self._send()
            elif call not in self._running:
                continue
            elif kind == "error":
                self._fail(call, _failed(value))
            elif (fault := self._refusal(call, value)) is not None:
                self._fail(call, Failed(fault))
            else:
                for other in tuple(self._running):
                    if other is not call:
                        other.drop()
                        self._over(other, LOST)
                return call, value
        raise hopeful(self._failures)

    def _hedge_at(self) -> float:
        hedge = self._request.hedge
        return float("inf") if hedge is None or not self._waiting else self._last_sent + hedge

    def _next(self, hedge_at: float = float("inf")) -> tuple[Call | None, str, Any]:
        """The next message; no call where it is time for a hedge. Raises Failed when nothing comes in time."""
        stalls = self._last_sign + self._request.stall
        until = min(stalls, self._limit, hedge_at)
        now = time.monotonic()
        while now < self._limit:
            try:  # what has come is looked at first: a slow disk, not the server, may have used up the time
                message = self._out.get(timeout=min(max(until - now, 0.0), TICK))
            except queue.Empty:
                now = time.monotonic()
                if now >= until:
                    break
                self._asking._watcher.idle()
                continue
            self._last_sign = time.monotonic()
            return message
        if hedge_at < min(stalls, self._limit) and now < self._limit:
            return None, "", None
        failed = self._cut(by_limit=now >= self._limit)
        for call in tuple(self._running):
            self._fail(call, failed)
        raise failed

    def _cut(self, *, by_limit: bool) -> Failed:
        timeout = self._request.policy.attempt_timeout
        if not by_limit:
            why = f"timed out: nothing came for {human(self._request.stall)}"
        elif timeout is not None and self._limit != self._asking._end:
            why = f"timed out after {human(timeout)}"
        else:
            why = "timed out: the deadline has passed"
        return Failed(Fault(FaultKind.AMBIGUOUS, None, why), timed_out=by_limit)

    def _refusal(self, call: Call, head: Head) -> Fault | None:
        """What an answer without the content is taken for; None where it has the content."""
        mirror, attempt = self._running[call]
        attempt.status = head.status
        if 200 <= head.status < 300 or (head.status == 416 and attempt.offset):
            return None
        fault = fault_of_status(head.status, head.headers, self._request.method, head.body or None)
        if fault.hint is not None:
            mirror.not_before = time.monotonic() + fault.hint
        return fault

    def _fail(self, call: Call, failed: Failed) -> None:
        mirror, attempt = self._running[call]
        attempt.fault, attempt.timed_out = failed.fault, failed.timed_out
        if not failed.fault.retryable:
            mirror.struck = failed
        self._failures.append(failed)
        self._over(call, "failed" if failed.fault.retryable else "failed for good")

    def _over(self, call: Call, result: str) -> None:
        _, attempt = self._running.pop(call)
        began = self._asking._began
        attempt.connected = None if call.connected is None else call.connected - began
        attempt.first_byte = None if call.first_byte is None else call.first_byte - began
        attempt.ended, attempt.result = self._asking.now(), result
        self._asking._watcher.over(attempt)

    # The content

    def _finish(self, call: Call, head: Head) -> None:
        content, (mirror, attempt) = self._asking.content, self._running[call]
        try:
            place = content.place(mirror, head, attempt.offset, whole=self._whole)
            if place.skip != COMPLETE:
                call.want()
                self._receive(call, place)
            content.end(mirror, head, whole=self._whole)
        except Restart as restart:
            self._asking._watcher.restarted(attempt, str(restart))
            self._over(call, "restarted")
            raise
        except Failed as failed:
            if call in self._running:
                self._fail(call, failed)
            raise
        self._over(call, "ok")

    def _receive(self, call: Call, place: Place) -> None:
        content, (mirror, attempt) = self._asking.content, self._running[call]
        while True:
            sender, kind, data = self._next()
            if sender is not call:
                continue
            if kind == "error":
                raise _failed(data)
            if kind == "end":
                return
            attempt.received += len(data)
            content.add(mirror, place, data, whole=self._whole)
            self._asking._watcher.moved(content.have, content.total)


def _failed(error: Exception) -> Failed:
    if isinstance(error, NotFollowed):
        failed = Failed(Fault(FaultKind.PERMANENT, None, f"not followed: {error}"))
    elif isinstance(error, ValueError) and not isinstance(error, OSError):  # of the resolver, of httpx
        failed = Failed(Fault(FaultKind.PERMANENT, None, f"not a URL that can be asked: {error}"))
    else:
        failed = Failed(classify(error))
    failed.__cause__ = error
    return failed
