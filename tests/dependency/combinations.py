"""Random dependencies and random traffic, for whatever holds for all of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import perdure
from perdure import (
    Breaker,
    Budget,
    Bulkhead,
    Constant,
    Fallback,
    Gate,
    Hedge,
    RateLimit,
    Retry,
    Safety,
    Timeouts,
)
from perdure.testing.virtual import apass, pass_time
from tests.engine.model import Leave

if TYPE_CHECKING:
    from collections.abc import Callable

eighths = st.integers(0, 24).map(lambda n: n / 8)


@dataclass(frozen=True)
class Step:
    """One call of the function: it takes so many seconds, then returns or raises."""

    outcome: Callable[[], object]
    took: float

    def end(self) -> object:
        result = self.outcome()
        if isinstance(result, BaseException):
            raise result
        return result


@dataclass(frozen=True)
class Caller:
    """Somebody who calls at a moment and may be cancelled a while later."""

    at: float
    leaves: float | None


class Work:
    """The function that is called: what it does next, and who is in it."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = list(steps)
        self.calls: list[object] = []
        self.inside = self.most = 0
        self.lock = threading.Lock()

    def begin(self, caller: object) -> Step:
        with self.lock:
            self.calls.append(caller)
            self.inside += 1
            self.most = max(self.most, self.inside)
            return self.steps.pop(0) if self.steps else Step(lambda: "ok", 0.25)

    def end(self) -> None:
        with self.lock:
            self.inside -= 1

    def __call__(self, caller: object) -> object:
        step = self.begin(caller)
        try:
            pass_time(step.took)
            return step.end()
        finally:
            self.end()

    async def later(self, caller: object) -> object:
        step = self.begin(caller)
        try:
            await apass(step.took)
            return step.end()
        finally:
            self.end()


class Answered(Exception):
    """The dependency says no."""


outcomes: st.SearchStrategy[Callable[[], object]] = st.sampled_from(
    [
        lambda: "ok",
        lambda: "bad",
        lambda: ConnectionRefusedError("down"),
        lambda: ConnectionRefusedError("down"),
        lambda: ConnectionResetError("lost"),
        lambda: TimeoutError("late"),
        lambda: Answered("no"),
        lambda: KeyError("a bug"),
        lambda: perdure.transient(Answered("busy"), after=1.5),
        Leave,
    ]
)
scripts = st.lists(st.builds(Step, outcomes, eighths), max_size=12)
callers = st.lists(st.builds(Caller, eighths, st.one_of(st.none(), eighths)), min_size=1, max_size=5)

PARTS: dict[str, tuple[Any, ...]] = {
    "timeouts": (
        None,
        Timeouts(connect=None, read=None, total=4),
        Timeouts(connect=1, read=1.5),
        Timeouts(connect=0.5, read=0.5, total=6, adaptive=True),
    ),
    "budget": (Budget(), None, Budget(start=1), Budget(max_ratio=0.1, start=1)),
    "gate": (Gate(), None, Gate(ceiling=2), Gate.throttle()),
    "breaker": (
        None,
        Breaker(failures=2, cooldown=1, successes=1),
        Breaker(failures=1, cooldown=2, ramp=False, probes=2),
        Breaker(failures=None, failure_rate=0.5, min_calls=2, cooldown=1, slow=1, slow_rate=0.5),
        Breaker(failures=1, cooldown=1, mode="shadow"),
    ),
    "rate_limit": (None, RateLimit(2, burst=1, max_wait=2), RateLimit(1, per=3, burst=2)),
    "bulkhead": (None, Bulkhead(1), Bulkhead(1, queue=1, max_wait=0.5), Bulkhead(2, queue=3)),
    "hedge": (None, None, Hedge(delay=0.5), Hedge(delay=0.25, max_hedges=2), Hedge(quantile=0.5)),
    "fallback": (
        None,
        None,
        Fallback(value="instead"),
        Fallback(lambda error, *_: error),
        Fallback(last_good=5),
    ),
    "safety": (None, None, Safety.SAFE),
}


def is_bad(value: object) -> bool:
    """What the policies reject."""
    return value == "bad"


@st.composite
def parts(draw: Any) -> dict[str, Any]:
    """Values for a Dependency that do not contradict each other."""
    chosen: dict[str, Any] = {name: draw(st.sampled_from(values)) for name, values in PARTS.items()}
    total = None if chosen["timeouts"] is None else chosen["timeouts"].total
    chosen["retry"] = draw(
        st.one_of(
            st.none(),
            st.builds(
                Retry,
                attempts=st.integers(1, 4),
                backoff=st.sampled_from((Constant(0), Constant(1.5), perdure.Exponential(base=0.5))),
                deadline=st.sampled_from((3.5,) if total else (None, 3.5, 20)),
                attempt_timeout=st.sampled_from((None, 1.0625)),
                reject=st.sampled_from((None, is_bad)),
            ),
        )
    )
    return chosen
