"""Hedging, the part that all colours share: when a copy of an attempt may be sent, and what it costs.

A copy goes out when the attempt has taken longer than usual. It is paid for from the budget, takes its own place
with the gate, the breaker and the limits, and waits for none of them: where it would have to, it is not sent.
"""

from __future__ import annotations

from perdure import clock
from perdure.engine import attempts, limiting, queueing, shutdown, spending, telling
from perdure.engine.attempts import Passage
from perdure.errors import DeadlineExceeded, Refused
from perdure.faults import Safety, classify
from perdure.faults.signal import Signal, signal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.engine.guarded import GuardedRun

LEAST_SAMPLES = 20
SHORTEST = 0.001
"""Seconds: a copy sent sooner would only double the load."""


def delay(run: GuardedRun) -> float | None:
    """Seconds after which a copy of the attempt may be sent; None: it has none."""
    hedge, state = run.guard.hedge, run.state
    if hedge is None or run.policy.safety is Safety.UNSAFE or run.disabled:
        return None
    if hedge.delay is not None:
        return hedge.delay
    with state.lock:
        usual = state.latencies.quantile(hedge.quantile) if state.latencies.count >= LEAST_SAMPLES else None
    return None if usual is None else max(SHORTEST, usual)


def launch(run: GuardedRun, number: int) -> Passage | None:
    """Pay for a copy and have it admitted; None: it may not be sent."""
    hedge, state, now = run.guard.hedge, run.state, clock.monotonic()
    if hedge is None or number > hedge.max_hedges or shutdown.closing:
        return None
    why = "the gate is cut or the budget half empty"
    if spending.may_hedge(state):
        if spending.withdraw(state, now, "hedges"):
            passage = _admit(run, now)
            if passage is not None:
                telling.happened(run, "hedge.launched", attempt=run.number)
                return passage
            spending.refund(state, now, "hedges")
            why = "no place"
        else:
            why = "budget"
    telling.happened(run, "hedge.suppressed", attempt=run.number, reason=why)
    return None


def _admit(run: GuardedRun, now: float) -> Passage | None:
    state = run.state
    if isinstance(limiting.reserve(state, now, 0.0), Refused):
        return None
    pause = queueing.Pause(0.0)
    got = limiting.take_place(state, pause)
    places, is_taken = (None, False) if isinstance(got, Refused) else got
    if not is_taken and places is not None:
        is_taken = limiting.quit_queue(state, places, pause)
    entered = attempts.enter(state, now, places) if is_taken else None
    if isinstance(entered, Passage):
        return entered
    limiting.unreserve(state, now, now)
    if is_taken and places is not None:
        queueing.wake(limiting.leave_place(state, places))
    return None


def unsent(run: GuardedRun, passage: Passage) -> None:
    """A copy could not be sent after all: what was taken for it is given back."""
    now = clock.monotonic()
    spending.refund(run.state, now, "hedges")
    queueing.wake(attempts.leave(run.state, passage, Signal.NEUTRAL, now))
    telling.happened(run, "hedge.suppressed", attempt=run.number, reason="no thread")
    telling.news(run.state, run)


def settle(run: GuardedRun, passage: Passage, error: BaseException | None, *, is_over: bool) -> None:
    """Report a copy that does not decide the attempt: it failed, or it lost and was cancelled or given up."""
    now = clock.monotonic()
    is_cut = not is_over or isinstance(error, DeadlineExceeded)
    if is_cut and run.timed_out(passage, now):
        queueing.wake(attempts.leave(run.state, passage, Signal.OVERLOAD, now))
    elif is_over and isinstance(error, Exception):
        fault = classify(error)
        wanted = run._wants(error, fault, marked=True)
        queueing.wake(attempts.leave(run.state, passage, signal_of(error, fault, wanted=wanted), now, fault))
    elif is_over and error is None:
        queueing.wake(attempts.leave(run.state, passage, Signal.ANSWER, now))
    else:
        attempts.outlasted(run.state, passage, now)
        queueing.wake(attempts.leave(run.state, passage, Signal.NEUTRAL, now))
    telling.news(run.state, run)


def won(run: GuardedRun, passage: Passage) -> None:
    """A copy gave the value: from here on it stands for the attempt."""
    run.passage = passage
    telling.happened(run, "hedge.won", attempt=run.number)
