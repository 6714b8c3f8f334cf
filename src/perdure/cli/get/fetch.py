"""The download itself.

Whether and when there is another attempt is decided by ``perdure.Retry``; what it calls here is one *round*: each
URL that is still worth it is asked once, in order, without a wait between them. A round that brought the download
forward and then broke begins a fresh run of the policy with that failure as its first, so that the attempts and
the waits are counted anew.
"""

from __future__ import annotations

import contextlib
import time

from perdure import clock, events, faults
from perdure.cli.child.signals import Interrupted
from perdure.cli.get.asking import Asking
from perdure.cli.get.exits import exit_code
from perdure.cli.get.mirrors import Mirrors, hopeful
from perdure.cli.get.record import Ending, Failed, Progressed
from perdure.cli.get.report import attempt_fields
from perdure.cli.get.stopping import interruptible
from perdure.cli.get.wording import ended, failed, follows, restarted, scheduled
from perdure.cli.wording import counting_down
from perdure.engine.deadlines import deadline
from perdure.faults import Safety
from perdure.policies import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.get.part import Part, Stream
    from perdure.cli.get.progress import Progress
    from perdure.cli.get.record import Attempt, Mirror, Request
    from perdure.cli.get.wire import Clients
    from perdure.cli.report import JsonFile
    from perdure.cli.screen import Screen
    from perdure.outcome import Outcome

__all__ = ["Fetch"]

BLINK = 0.1
"""Seconds between two values of the countdown."""

KEPT = 100
"""So many attempts are remembered, the last ones."""

_LEAST = 4_096
"""So many bytes count as getting further where nobody knows how many there are; else it is a thousandth."""


class Fetch:
    """One ``perdure get``, from the first attempt to the ending. One thread, one use."""

    def __init__(
        self,
        request: Request,
        sink: Part | Stream,
        clients: Clients,
        screen: Screen,
        progress: Progress,
        log: JsonFile | None = None,
    ) -> None:
        self.attempts: list[Attempt] = []  # the last KEPT
        self.made = 0
        self._request = request
        self._sink = sink
        self._screen = screen
        self._total: int | None = None
        self._progress = progress
        self._log = log
        self._began = time.monotonic()
        self._end = None if request.deadline is None else self._began + request.deadline
        self._asking = Asking(request, sink, clients, self, end=self._end)
        self._mirrors = Mirrors(request.urls)
        self._round = 0
        self._since = 0  # the round after which attempts are counted,
        self._counted_from = 0  # and were when the last round began
        self._received = 0
        self._resumed_from = self._high = sink.have
        self._carried: Failed | None = None
        self._last: Failed | None = None
        self._untold: Attempt | None = None
        self._refused: float | None = None
        self._real_sleep = clock.sleep

    def run(self) -> Ending:
        """Go on until the policy says stop; then tell how it ended. Raises OSError for trouble on this side."""
        self._tell("call.start", urls=len(self._request.urls), method=self._request.method)
        stop_listening = events.listen(self._heard)
        forget = faults.register(Failed, lambda error: error.fault if isinstance(error, Failed) else None)
        clock.sleep = self._wait
        try:
            with interruptible():
                ending = self._until_settled()
        except Interrupted as interruption:
            ending = self._ending("interrupted", signum=interruption.signum)
        finally:
            clock.sleep = self._real_sleep
            stop_listening()
            forget()
            self._progress.stop()
        self._conclude(ending)
        return ending

    def _until_settled(self) -> Ending:
        with contextlib.ExitStack() as stack:
            if self._request.deadline is not None:
                stack.enter_context(deadline(self._request.deadline))
            while True:
                outcome = self._policy().outcome(self._ask_round)
                if not isinstance(outcome.error, Progressed):
                    return self._settled(outcome)

    def _policy(self) -> Any:
        policy = self._request.policy
        return policy.replace(
            never=(Progressed, OSError),
            deadline=FOREVER if policy.attempts is None else None,  # the end of the whole is around it
            attempt_timeout=None,  # each request has it, not the round
            safety=Safety.KEYED if self._request.idempotency_key else Safety.SAFE,
            name="get",
        )

    def _settled(self, outcome: Outcome[None]) -> Ending:
        error = outcome.error
        if error is None:
            self._sink.finish()
            return self._ending("success")
        if isinstance(error, Failed):
            self._last = error
            return self._ending(error.ending or outcome.stop.value)
        if outcome.stop == "deadline":
            return self._ending("deadline")
        raise error

    # One round

    def _ask_round(self) -> None:
        """Raises Failed when no URL delivers, Progressed when one did and broke off."""
        if self._carried is not None:
            carried, self._carried = self._carried, None
            raise carried
        self._round += 1
        self._counted_from = self._since
        failures: list[Failed] = []
        asked: set[Mirror] = set()
        while (mirror := self._mirrors.next(asked)) is not None:
            if failures and self._untold is not None:
                self._say(follows(self._request, self._untold, self._number(), mirror.url))
                self._untold = None
            backups = self._mirrors.backups(mirror, asked) if self._request.hedge is not None else []
            try:
                return self._asking.ask(mirror, backups, self._round, asked)
            except Failed as failure:
                self._last = failure
                if failure.ending == "unreplayable":
                    raise
                self._look_at_progress(mirror, failure)
                failures.append(failure)
            if self._end is not None and time.monotonic() >= self._end:
                break
        raise hopeful(failures) if failures else self._mirrors.struck()

    def _look_at_progress(self, mirror: Mirror, failure: Failed) -> None:
        """A failure after new bytes counts as the first: the next round begins with the same mirror."""
        least = (  # else a byte each time would go on for ever
            _LEAST if self._total is None else self._total // 1000
        )
        if self._sink.have <= self._high or self._sink.have - self._high < least:
            return
        self._high = self._sink.have
        if failure.fault.retryable:
            self._mirrors.begin_with(mirror)
            self._since = self._round - 1
            self._carried = failure
            raise Progressed from failure

    # What happens, as it happens

    def begun(self, attempt: Attempt) -> None:
        """A request is sent."""
        self.made = attempt.number
        self.attempts = [*self.attempts[1 - KEPT :], attempt]
        self._tell("attempt.start", attempt=attempt.number, url=attempt.url, offset=attempt.offset)

    def over(self, attempt: Attempt) -> None:
        """A request is over."""
        self._received += attempt.received
        if attempt.fault is not None:
            if self._untold is not None:  # several raced
                self._say(failed(self._request, self._untold, self._number()))
            self._untold = attempt
        self._tell("attempt.end", **attempt_fields(attempt))

    def restarted(self, attempt: Attempt, why: str) -> None:
        """What is here cannot be continued."""
        self._tell("download.restarted", attempt=attempt.number, reason=why)
        self._say(restarted(self._request, attempt, self._number(), why))

    def moved(self, have: int, total: int | None) -> None:
        """Bytes came."""
        self._total = total
        self._progress.show(have, total)

    def idle(self) -> None:
        """Nothing came for a while."""
        self._progress.again()

    def _heard(self, event: events.Event) -> None:
        """The policy decided."""
        if event.name == "retry.scheduled" and event.delay is not None and self.attempts:
            self.attempts[-1].delay = event.delay
            self._tell(event.name, attempt=self.made, delay=event.delay, reason=event.reason)
            if self._untold is not None:
                anew = self._since != self._counted_from
                self._say(scheduled(self._request, self._untold, self._number(), event.delay, anew=anew))
                self._untold = None
        elif event.name == "retry.suppressed":
            self._refused = event.delay
            if self._carried is None:
                self._tell(event.name, attempt=self.made, delay=event.delay, reason=event.reason)

    def _wait(self, duration: float) -> None:
        """Wait, counting down where somebody watches."""
        if not self._screen.live or duration <= BLINK:
            self._real_sleep(duration)
            return
        end = time.monotonic() + duration
        try:
            while (left := end - time.monotonic()) > 0:
                until = None if self._end is None else self._end - time.monotonic()
                following = self._round + 1 - self._since
                self._screen.draw(counting_down(following, self._request.allowed, left, until))
                self._real_sleep(min(left, BLINK))
        finally:
            self._screen.erase()

    def _number(self) -> int:
        """The number of the round, counted from the last one before it that brought the download forward."""
        return self._round - self._counted_from

    # The end

    def _ending(self, stop: str, *, signum: int | None = None) -> Ending:
        last = self._last
        fault = None if last is None else last.fault
        wanted = self._request.checksum
        return Ending(
            stop=stop,
            code=exit_code(stop, timed_out=last is not None and last.timed_out, signum=signum),
            elapsed=time.monotonic() - self._began,
            why="" if stop == "success" or fault is None else fault.why,
            size=self._sink.have,
            received=self._received,
            resumed_from=self._resumed_from,
            digest=wanted.digest if wanted is not None and stop == "success" else None,
            retry_after=None if fault is None or stop == "success" else fault.hint,
            refused=self._refused if self._end is None or time.monotonic() < self._end else None,
            signal=signum,
        )

    def _conclude(self, ending: Ending) -> None:
        for line in ended(self._request, self._sink, ending, self._untold, self._number()):
            self._say(line)
        self._tell(
            "call.end",
            stop=ending.stop,
            exit=ending.code,
            attempts=self.made,
            elapsed=round(ending.elapsed, 6),
        )

    def _say(self, line: str) -> None:
        self._screen.line(line)

    def _tell(self, name: str, **fields: object) -> None:
        if self._log is not None:
            self._log.event(name, **fields)
