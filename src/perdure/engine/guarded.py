"""A call to a dependency: a Run that asks the dependency's state before each attempt and tells it after each.

The order, from outside: fallback, end, gate, retry or hedge (budget), breaker, rate limit, bulkhead, attempt
timeout, the call. What comes before an attempt is in ``perdure.engine.admission``.
"""

from __future__ import annotations

from perdure import clock, events
from perdure.core.decide import Again, Stop
from perdure.engine import admission, ambient, attempts, ending, logs, queueing, responses, spending, telling
from perdure.engine.attempts import Passage
from perdure.engine.hosts import host_of
from perdure.engine.run import REJECTED, Run, text_of
from perdure.engine.trail import Trail
from perdure.errors import DeadlineExceeded, ResultRejected
from perdure.faults import Fault, FaultKind
from perdure.faults.duck import fault_of_response
from perdure.faults.signal import Signal, signal_of
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import CodeType
    from typing import Any

    from perdure.core.lease import Lease
    from perdure.engine.deadlines import Deadline
    from perdure.engine.guard import Guard
    from perdure.engine.queueing import Pause
    from perdure.engine.state import State
    from perdure.parts import Fallback

__all__ = ["GuardedRun"]

_NEVER = float("inf")
_CUT = Fault(FaultKind.AMBIGUOUS, None, "cut by the end of the whole call")


class GuardedRun(Run):
    """One call to a dependency in progress; belongs to the thread or task that makes it."""

    __slots__ = (
        *("block", "end", "fallback", "guard", "hedge", "is_waiting", "passage", "prepaid", "state"),
        "total",
    )

    def __init__(
        self,
        guard: Guard,
        fn: Callable[..., Any] | CodeType,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        start: float | None = None,
        number: int = 0,
        state: State | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.passage: Passage | None = None  # first: a key function may raise what passes
        super().__init__(guard.retry, fn, args, kwargs, start, number)
        self.guard: Guard = guard  # pyright: ignore[reportIncompatibleVariableOverride] # never None here
        # As they are now: a reload does not change a call in flight.
        self.hedge = guard.hedge
        self.fallback: Fallback | None = guard.fallback
        self.total: float | None = guard.total
        self.state: State = guard.state_for(args, kwargs) if state is None else state
        if lease is not None:
            self.passage = Passage(lease, start)
        self.end: Any = None  # of the whole call, where a fused wrapper published it
        self.block: Deadline | None = None  # the end of the whole call, where that interrupts
        self.is_waiting = False  # that end came between two attempts
        self.prepaid = False  # the budget was charged for an attempt that has not begun

    def begin(self) -> None:
        """See ``Run``; a look at which host the call goes to, where all hosts share one state."""
        core = self.guard.core
        if self.state is core.root and not core.warned and (self.args or self.kwargs):
            host = host_of(self.args, self.kwargs)
            if host is not None:
                core.saw_host(host)
        super().begin()

    def __del__(self) -> None:
        if self.passage is not None:  # a coroutine that was never awaited, a loop that was left
            self.state.orphans.append(self.passage)
            self.state.rejects_until = self.state.due = 0.0

    # Before an attempt

    def admit(self) -> Generator[Pause, None, object] | None:
        """Have the next attempt admitted; gives the waits that this takes, if any.

        Afterwards ``passage`` is held or, where a retry was refused, ``stop`` is set and the error of the last
        attempt is to be raised. Raises the refusal where it is the first attempt.
        """
        if self.state.kit.has_limits:
            return admission.queue(self)
        admission.enter(self, None)
        return None

    def left(self) -> float:
        """Seconds in which an attempt may still begin."""
        now, deadline = clock.monotonic(), self.policy.deadline
        left = _NEVER if deadline is None else self.since() + deadline - now
        end = ambient.nearest_at()
        return max(0.0, left if end is None else min(left, end - now))

    def next_attempt(self) -> Callable[[], object] | None:
        """See ``Run``; an attempt that may not begin gives back what was taken for it."""
        refresh = super().next_attempt()
        if self.stop is not None:
            self.abandon()
        self.prepaid = False
        return refresh

    def attempt_timeout(self) -> float | None:
        """See ``Run``; an adaptive timeout follows the latencies."""
        own, adaptive = super().attempt_timeout(), self.state.adaptive
        if adaptive is None or own is None:
            return own
        with self.state.lock:
            return adaptive.timeout(own)

    def left_of_total(self) -> float | None:
        """See ``Run``."""
        total = self.total
        return None if total is None else max(0.0, self.since() + total - clock.monotonic())

    def is_out_of_time(self) -> bool:
        """Whether the end of the whole call has come, as far as a timer can tell."""
        left = self.left_of_total()
        return left is not None and left < 0.001

    # After an attempt

    def failure(self, error: BaseException) -> bool:
        """See ``Run``; what passes through says nothing about the dependency."""
        if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
            self.is_waiting = self.error is not None or not self.number  # not by the passage: copies have it
            if self.block is not None and self.block.has_come():
                self._cut_by_total()
                self.error = None
                return False  # whoever opened the block says why the call ends
            self.abandon()
        return super().failure(error)

    def success(self, value: object) -> bool:
        """See ``Run``."""
        if self.policy.reject is not None and not self.accepts(value):
            return False
        self.report(Signal.ANSWER, clock.monotonic())
        if self.stop is None:
            self.stop = StopReason.SUCCESS
            if self.records and type(value) in responses.KINDS:
                responses.note(value, Trail(self, StopReason.SUCCESS, clock.monotonic(), marked=False))
            if events.listeners or (self.records and logs.wants(logs.INFO)):
                ending.succeeded(self)
        return True

    def succeed(self) -> None:
        """See ``Run``."""
        self.report(Signal.ANSWER, clock.monotonic())
        super().succeed()

    def key_text(self) -> str | None:
        """See ``Run``."""
        return self.state.text

    def report(
        self, signal: Signal, now: float, fault: Fault | None = None, error: BaseException | None = None
    ) -> None:
        """Tell the state how the attempt ended; the place is free then."""
        if self.passage is None:
            return
        text = None if error is None else f"{type(error).__name__}: {text_of(error)}"
        passage, self.passage = self.passage, None
        queueing.wake(attempts.leave(self.state, passage, signal, now, fault, text))
        telling.news(self.state, self)

    def abandon(self) -> None:
        """Give back the place and the token of an attempt that was cancelled, or was never made."""
        if self.passage is not None:
            self.report(Signal.NEUTRAL, clock.monotonic())
        if self.prepaid:
            self.prepaid = False
            spending.refund(self.state, clock.monotonic(), "retries")

    def _judge(self, error: Exception, fault: Fault, now: float, *, marked: bool) -> Again | Stop:
        wanted = self._wants(error, fault, marked=marked)
        if isinstance(error, ResultRejected):
            self._report_rejected(error, fault, now)
        elif isinstance(error, DeadlineExceeded) and self.is_out_of_time():
            self._cut_by_total()
        else:
            self.report(signal_of(error, fault, wanted=wanted), now, fault, error)
        decision = self._decide(error, fault, now, wanted, marked=marked)
        if isinstance(error, DeadlineExceeded) and self.is_out_of_time():
            return Stop(StopReason.DEADLINE)
        return self._afford(decision, now) if isinstance(decision, Again) else decision

    def _cut_by_total(self) -> None:
        """The end of the whole call cut an attempt: one that had half of that time to itself has timed out.

        A shorter one may only have begun too late, which says nothing about the dependency.
        """
        now, passage = clock.monotonic(), self.passage
        if passage is not None and self.timed_out(passage, now):
            self.report(Signal.OVERLOAD, now, _CUT)
        self.abandon()

    def timed_out(self, passage: Passage, now: float) -> bool:
        """Whether an attempt had half of the whole call to itself, and the call is over."""
        total, began = self.total, passage.began
        return total is not None and began is not None and self.is_out_of_time() and now - began >= total / 2

    def _report_rejected(self, rejected: ResultRejected, said: Fault, now: float) -> None:
        """A result is an answer, also one that ``reject=`` refuses; but a response may say that it is a failure."""
        fault = fault_of_response(rejected.result) if said is REJECTED else said
        if fault is None:
            self.report(Signal.ANSWER, now)
        else:
            self.report(signal_of(rejected, fault, wanted=False), now, fault, rejected)

    def _afford(self, again: Again, now: float) -> Again | Stop:
        """Whether the dependency can take another attempt after that delay."""
        state = self.state
        blocked = spending.closed_for(state, now)
        if blocked > again.delay:
            return Stop(StopReason.BREAKER, blocked)
        pace = spending.pace(state, now)
        if pace > again.delay:
            if pace > self.left():
                return Stop(StopReason.GATE, pace)
            again = Again(pace, again.source)
        if not spending.withdraw(state, now, "retries"):
            telling.news(state, self)
            return Stop(StopReason.BUDGET)
        self.prepaid = True
        if events.listeners:
            telling.news(state, self)
        return again
