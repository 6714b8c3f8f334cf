"""Hedging, the part that all colours share: when a copy of an attempt may be sent, and what it costs.

A copy goes out when the attempt has taken longer than usual. It is paid for from the budget, takes its own place
with the gate, the breaker and the limits, and waits for none of them: where it would have to, it is not sent.
"""

from __future__ import annotations

from perdure import clock
from perdure.engine import queueing, shutdown, telling
from perdure.engine.state import Passage
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
    if state.may_hedge():
        if state.withdraw(now, "hedges"):
            passage = _admit(run, now)
            if passage is not None:
                telling.happened(run, "hedge.launched", attempt=run.number)
                return passage
            state.refund(now, "hedges")
            why = "no place"
        else:
            why = "budget"
    telling.happened(run, "hedge.suppressed", attempt=run.number, reason=why)
    return None


def _admit(run: GuardedRun, now: float) -> Passage | None:
    state = run.state
    if isinstance(state.reserve(now, 0.0), Refused):
        return None
    pause = queueing.Pause(0.0)
    got = state.take_place(pause)
    places, is_taken = (None, False) if isinstance(got, Refused) else got
    if not is_taken and places is not None:
        is_taken = state.quit_queue(places, pause)
    entered = state.enter(now, places) if is_taken else None
    if isinstance(entered, Passage):
        return entered
    state.unreserve(now, now)
    if is_taken and places is not None:
        queueing.wake(state.leave_place(places))
    return None


def unsent(run: GuardedRun, passage: Passage) -> None:
    """A copy could not be sent after all: what was taken for it is given back."""
    now = clock.monotonic()
    run.state.refund(now, "hedges")
    queueing.wake(run.state.leave(passage, Signal.NEUTRAL, now))
    telling.happened(run, "hedge.suppressed", attempt=run.number, reason="no thread")
    telling.news(run.state, run)


def settle(run: GuardedRun, passage: Passage, error: BaseException | None, *, is_over: bool) -> None:
    """Report a copy that does not decide the attempt: it failed, or it lost and was cancelled or given up."""
    now = clock.monotonic()
    is_cut = not is_over or isinstance(error, DeadlineExceeded)
    if is_cut and run.timed_out(passage, now):
        queueing.wake(run.state.leave(passage, Signal.OVERLOAD, now))
    elif is_over and isinstance(error, Exception):
        fault = classify(error)
        wanted = run._wants(error, fault, marked=True)
        queueing.wake(run.state.leave(passage, signal_of(error, fault, wanted=wanted), now, fault))
    elif is_over and error is None:
        queueing.wake(run.state.leave(passage, Signal.ANSWER, now))
    else:
        run.state.outlasted(passage, now)
        queueing.wake(run.state.leave(passage, Signal.NEUTRAL, now))
    telling.news(run.state, run)


def won(run: GuardedRun, passage: Passage) -> None:
    """A copy gave the value: from here on it stands for the attempt."""
    run.passage = passage
    telling.happened(run, "hedge.won", attempt=run.number)
