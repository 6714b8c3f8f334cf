"""The run itself.

Whether another attempt follows, and when, is decided by ``perdure.Retry``; here is only the attempt (run the
command, judge it, remember it) and what is told about it.
"""

from __future__ import annotations

import time

from perdure import clock, events
from perdure.cli.child.signals import Interrupted
from perdure.cli.environment import command_environment, giveup_environment, retry_environment
from perdure.cli.exits import exit_code
from perdure.cli.record import Attempt, Ending, Refusal
from perdure.cli.report import Evidence, attempt_fields
from perdure.cli.rules import judge, meaning, what_happened
from perdure.cli.wording import counting_down, ended, scheduled
from perdure.engine.ambient import time_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from perdure.cli.child.signals import Signals
    from perdure.cli.child.supervised import Ran
    from perdure.cli.child.windows import WindowsLauncher, WindowsSignals
    from perdure.cli.launch import Launcher
    from perdure.cli.record import Request
    from perdure.cli.report import JsonFile
    from perdure.cli.rules import Verdict
    from perdure.cli.screen import Screen
    from perdure.cli.shared import Shared
    from perdure.policies import Retry

    T = TypeVar("T")

__all__ = ["CommandFailed", "CommandStopped", "Loop"]

KEPT = 100
"""So many attempts are remembered, the last ones: a run may make millions."""

BLINK = 0.1
"""Seconds between two values of the countdown."""


class CommandFailed(Exception):
    """The command failed in a way that is worth another attempt."""


class CommandStopped(CommandFailed):
    """The command failed in a way that no retry mends."""


class Loop:
    """One ``perdure run``, from the first attempt to the ending. One thread, one use."""

    def __init__(
        self,
        request: Request,
        launcher: Launcher | WindowsLauncher,
        signals: Signals | WindowsSignals,
        screen: Screen,
        log: JsonFile | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.attempts: list[Attempt] = []  # the last KEPT
        self.failed_hooks: list[dict[str, object]] = []
        self._request = request
        self._launcher = launcher
        self._signals = signals
        self._screen = screen
        self._log = log
        self._evidence = Evidence()
        self._began = time.monotonic()
        self._made = 0
        self._streak = 0
        self._refused: float | None = None
        self._barred = ""  # the stop reason where a retry was wanted and could not be made
        self._shared = shared
        self._refusal: Refusal | None = None
        self._real_sleep = clock.sleep

    def run(self) -> Ending:
        """Make attempts until the policy says stop; then tell how it ended."""
        self._tell("call.start", command=list(self._request.command))
        stop_listening = events.listen(self._heard)
        clock.sleep = self._wait
        try:
            with self._signals.idle():
                stop = self._attempts()
            ending = self._ending(stop)
        except Interrupted as interruption:
            ending = self._interrupted(interruption.signum)
        finally:
            clock.sleep = self._real_sleep
            stop_listening()
        try:
            self._conclude(ending)
        finally:
            self._evidence.close()
        return ending

    def _attempts(self) -> str:
        """Make them; the reason why there are no more."""
        if self._shared is not None:
            self._refusal = self._shared.enter(self._deadline_left(float("inf")))
            if self._refusal is not None:
                return self._refusal.stop
        outcome = self._policy().outcome(self._attempt)
        if outcome.ok:
            self._launcher.release()
        if outcome.error is not None and not isinstance(outcome.error, CommandFailed):
            raise outcome.error  # perdure's own trouble, not the command's
        return outcome.stop.value

    def _policy(self) -> Retry:
        """The policy, with what is left of its deadline after the wait for a lock."""
        policy, left = self._request.policy, self._deadline_left(float("inf"))
        if self._request.sharing is None or self._request.sharing.lock is None or left == float("inf"):
            return policy
        return policy.replace(deadline=max(0.0, left))

    # One attempt

    def _attempt(self) -> None:
        """Raises CommandFailed or CommandStopped unless it succeeded, Interrupted if told to stop."""
        with self._signals.attending():
            self._ask()
            attempt = self._one()
        if attempt.verdict.kind == "again":
            raise CommandFailed(attempt.verdict.event)
        if attempt.verdict.kind == "stop":
            raise CommandStopped(attempt.verdict.event)

    def _ask(self) -> None:
        """Raises CommandStopped where what is shared with others refuses the attempt."""
        self._refusal = None if self._shared is None else self._shared.ask()
        if self._refusal is not None:
            self._barred = self._refusal.stop
            raise CommandStopped(self._refusal.why)

    def _one(self) -> Attempt:
        request, number = self._request, self._made + 1
        timeout, began = time_left(), time.monotonic()
        path = self._evidence.write(self.attempts)
        if self.attempts and request.on_retry:
            self._hook("--on-retry", request.on_retry, retry_environment(request, self.attempts, path))
        env = command_environment(request, self.attempts, path)
        self._tell("attempt.start", attempt=number)
        ran, settle = self._launcher.attempt(number, env, timeout, keep=number != request.allowed)
        try:
            verified = self._verify(ran, env, timeout)
        except BaseException:
            settle(False)  # noqa: FBT003 - whatever happens here, nothing of the attempt stays behind
            raise
        verdict = self._judge(ran, verified, number)
        attempt = Attempt(number, began - self._began, ran, verdict, verified)
        self._made = number
        self.attempts = [*self.attempts[1 - KEPT :], attempt]
        attempt.left_running = settle(verdict.kind == "ok" and self._signals.stop is None)
        self._tell("attempt.end", **attempt_fields(attempt))
        return attempt

    def _verify(self, ran: Ran, env: dict[str, str], timeout: float | None) -> Ran | None:
        if self._request.verify is None or ran.code or ran.asked_to_stop:
            return None
        return self._launcher.verify(env, None if timeout is None else max(0.001, timeout - ran.duration))

    def _judge(self, ran: Ran, verified: Ran | None, number: int) -> Verdict:
        """The verdict on a run; also stops where the next attempt could not be given the same stdin.

        Or where the budget that is shared with others has no retry left.
        """
        verdict = judge(self._request.rules, ran, verified=verified, streak=self._streak)
        self._streak = self._streak + 1 if verdict.success else 0
        again = verdict.kind == "again" and number != self._request.allowed
        replay = self._launcher.replay
        why = replay.why_not if again and replay is not None and not replay.whole else ""
        self._barred = "unreplayable" if why else ""
        if self._shared is not None:
            retry = again and not why and not verdict.success
            refused = self._shared.after(meaning(ran, verdict), paid_in=verdict.success, retry=retry)
            self._barred, why = ("budget", refused) if refused else (self._barred, why)
        return verdict._replace(kind="stop", why=why) if why else verdict

    def _hook(self, option: str, command: str, env: dict[str, str]) -> None:
        """Run a hook; one that fails is reported once and changes nothing."""
        ran = self._launcher.hook(command, env)
        if not ran.code or any(one["hook"] == option for one in self.failed_hooks):
            return
        happened = what_happened(ran)
        self.failed_hooks.append({"hook": option, "exit": ran.code, "reason": happened})
        self._tell("hook.failed", hook=option, exit=ran.code)
        self._screen.line(f"perdure: {option} {happened}; it changes nothing and is not reported again")

    # Between attempts

    def _heard(self, event: events.Event) -> None:
        """The policy decided."""
        if event.name == "retry.scheduled" and event.delay is not None:
            self.attempts[-1].delay = event.delay
            self._tell(event.name, attempt=event.attempt, delay=event.delay, reason=event.reason)
            self._screen.line(scheduled(self.attempts[-1], self._request.allowed, event.delay))
        elif event.name == "retry.suppressed":
            self._refused = event.delay
            reason = self._barred or event.reason
            self._tell(event.name, attempt=event.attempt, delay=event.delay, reason=reason)

    def _wait(self, duration: float) -> None:
        """Wait, counting down where somebody watches."""
        if not self._screen.live or duration <= BLINK:
            self._real_sleep(duration)
            return
        number, allowed = self._made + 1, self._request.allowed
        end = time.monotonic() + duration
        try:
            while (left := end - time.monotonic()) > 0:
                self._screen.draw(counting_down(number, allowed, left, self._deadline_left(None)))
                self._real_sleep(min(left, BLINK))
        finally:
            self._screen.erase()

    def _deadline_left(self, without: T) -> float | T:
        deadline = self._request.policy.deadline
        return without if deadline is None else self._began + deadline - time.monotonic()

    # The end

    def _ending(self, stop: str) -> Ending:
        last = self._last()
        stop = self._barred or stop
        refusal = self._refusal
        why = last.verdict.why if last is not None else stop
        return Ending(
            stop=stop,
            code=exit_code(self._request, stop, last),
            elapsed=self._elapsed(),
            attempts=self._made,
            why=why if refusal is None else refusal.why,
            retry_after=None if refusal is None else refusal.retry_after,
            refused=self._refused if stop == "deadline" else None,
        )

    def _interrupted(self, signum: int) -> Ending:
        """A command that was told to stop and ended by itself speaks for itself; else 128 + the signal."""
        last = self._last()
        code = last.ran.code if last is not None and last.ran.asked_to_stop else 128 + signum
        return Ending("interrupted", code, self._elapsed(), self._made, signal=signum)

    def _conclude(self, ending: Ending) -> None:
        request = self._request
        self._screen.line(ended(request, ending, self._last()))
        if request.on_giveup and not ending.ok and ending.stop != "interrupted":
            env = giveup_environment(request, ending, self.attempts, self._evidence.path)
            self._hook("--on-giveup", request.on_giveup, env)
        self._tell(
            "call.end",
            stop=ending.stop,
            exit=ending.code,
            attempts=self._made,
            elapsed=round(ending.elapsed, 6),
        )

    def _last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _tell(self, name: str, **fields: object) -> None:
        if self._log is not None:
            self._log.event(name, **fields)
