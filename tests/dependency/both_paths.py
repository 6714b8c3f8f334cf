"""One script of calls, driven along the fused path or along the general path, and all that can be seen of it.

The two may differ in what sampling explains and in nothing else. Sampling explains latencies, the most that was in
flight, and when within a tick successes are counted. So all happens at whole quarters of a second, a single attempt
takes no time, and before time moves on there is one neutral call, a tick later, as traffic would bring: by then all
is counted.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from perdure import Dependency, Exponential, Retry, bypass, clock
from perdure.engine import fused, waiting
from perdure.engine.attempts import TICK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.engine.state import State

QUARTER = 0.25


class Passing(BaseException):
    """What no policy looks at."""


class Call(NamedTuple):
    """A call: how its attempts end, the last way again and again, and the steps taken while the first one runs."""

    ends: tuple[str, ...]
    inside: tuple[Call | float, ...] = ()


ENDS: dict[str, Callable[[], BaseException]] = {
    "refused": lambda: ConnectionError("down"),
    "timeout": lambda: TimeoutError("slow"),
    "own error": lambda: ValueError("a bug"),
    "passes": lambda: Passing("out"),
    "cancelled": asyncio.CancelledError,
}
FINE, NEUTRAL = Call(("fine",)), Call(("own error",))


class Arm:
    """One of the two: a dependency with its own time and chance, and a log of all that was seen of it."""

    def __init__(self, form: str, parts: dict[str, Any]) -> None:
        self.now = 0.0
        self.random = Random(7)
        self.draws = 0
        self.waits: list[float] = []
        self.ends: list[str] = []
        self.log: list[object] = []
        retry = Retry(attempts=3, backoff=Exponential(base=QUARTER, jitter="none"))
        self.payments = Dependency("payments", replace=True, **{"retry": retry, **parts})
        self.state: State = self.payments._guard.core.root
        self.guarded: Any = self.payments(self.function(form))
        self.is_async = form == "async"

    def function(self, form: str) -> Callable[..., Any]:
        """What is called: a plain function, or one with another colour or signature."""

        def plain(ends: list[str], inside: list[Call | float], *, note: str = "none") -> str:
            return self.attempt(ends, inside, note)

        async def later(ends: list[str], inside: list[Call | float], *, note: str = "none") -> str:
            return self.attempt(ends, inside, note)

        def catch_all(*args: Any, **kwargs: Any) -> str:
            return plain(*args, **kwargs)

        return {"sync": plain, "async": later, "catch-all": catch_all}[form]

    def attempt(self, ends: list[str], inside: list[Call | float], note: str) -> str:
        assert note == "by name"
        end = ends.pop(0) if len(ends) > 1 else ends[0]
        self.ends.append(end)
        steps, inside[:] = tuple(inside), ()  # not again in a retry
        self.follow(steps)
        if end == "fine":
            return "fine"
        error = ENDS[end]()
        raise error

    def follow(self, script: tuple[Call | float, ...]) -> None:
        for step in script:
            if isinstance(step, Call):
                self.log.append(("called", step.ends, self.call(step), light(self)))
            else:
                self.let_pass(step)

    def let_pass(self, seconds: float) -> None:
        """Time goes by, with the ticks before and after it that traffic brings."""
        then = self.now + seconds
        for moment in (self.now + TICK, max(then, quarter(self.now + TICK))):
            self.now = moment
            self.state.rejects_until = 0.0  # a call that an open breaker refuses at once brings no tick
            self.call(NEUTRAL)
        self.log.append(("passed", seconds, whole(self), light(self)))

    def call(self, one: Call) -> object:
        try:
            made = self.guarded(list(one.ends), list(one.inside), note="by name")
            return run(made) if self.is_async else made
        except BaseException as error:  # noqa: BLE001 - what came out is what is compared
            after = getattr(error, "retry_after", None)
            return type(error).__name__, str(error), after and round(after, 9)

    def draw(self) -> float:
        self.draws += 1
        return self.random.random()

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now = quarter(self.now + seconds)

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


def quarter(moment: float) -> float:
    """The next quarter of a second."""
    return math.ceil(moment / QUARTER) * QUARTER


def run(coroutine: Any) -> object:
    """Run a coroutine that never really waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


@contextmanager
def at_work(arm: Arm, *, general: bool) -> Iterator[None]:
    """Its time and chance are those of the process, and sync functions settle after a few calls."""
    now = lambda: arm.now + 0.0  # noqa: E731 - a new object each time, as the clock gives
    with (
        mock.patch.multiple(clock, monotonic=now, wall=now, random=arm.draw, sleep=arm.sleep),
        mock.patch.object(waiting, "wait", arm.asleep),
        mock.patch.dict(bypass.NAMESPACE, _now=now),
        mock.patch.object(fused, "PROBATION", 3),
    ):
        if not general:
            yield
            return
        bypass.hold("test")
        try:
            yield
        finally:
            bypass.release("test")


def driven(form: str, parts: dict[str, Any], script: tuple[Call | float, ...], *, general: bool) -> Arm:
    """What is seen while one arm follows the script."""
    arm = Arm(form, parts)
    with at_work(arm, general=general):
        arm.follow(script)
        arm.let_pass(QUARTER)
    return arm


def light(arm: Arm) -> tuple[object, ...]:
    """What must agree after each call; looking changes nothing."""
    state, now = arm.state, arm.now
    breaker, gate = state.breaker, state.gate
    return (
        (now, tuple(arm.ends), tuple(arm.waits)),
        len(state.flight) if state.kit.counts_flight else None,
        (state.fast is None, counts(state), list(state.errors)),
        None if breaker is None else (breaker.state(now), breaker.retry_after(now), breaker.is_plain),
        None if breaker is None else (breaker.shared is state.shared, breaker.shared.generation),
        None if gate is None else gate.limit,
    )


def counts(state: State) -> dict[str, int]:
    """The counters; refusals by an open breaker are counted in two places."""
    counted = {**state.counts}
    if state.rejected:
        counted["refused.breaker"] = counted.get("refused.breaker", 0) + state.rejected
    return counted


def whole(arm: Arm) -> dict[str, object]:
    """What must agree once all is counted; looking changes nothing."""
    state, now = copy_of(arm), arm.now
    seen: dict[str, object] = {"draws": arm.draws}
    ok = state.total_ok()
    if state.kit.counts_successes:
        seen["ok"] = ok
    if state.kit.counts_successes and state.kit.counts_flight:
        seen["sent"] = state.total_sent(), state.total_first()
    if state.breaker is not None:
        kept = state.breaker.to_dict(now)
        for name in () if state.kit.counts_successes else ("results",):
            del kept[name]
        seen["breaker"] = {name: value for name, value in kept.items() if name != "peak"}
        seen["places"] = len(state.breaker._places)
    if state.gate is not None:
        gate = state.gate
        times = gate._cut_at, gate._signal_at, gate._sent_at
        seen["gate"] = gate.limit, times, gate._window.totals(now), gate._sent, gate._ended
    if state.bucket is not None:
        seen["bucket"] = state.bucket.tokens(ok)
    if state.share is not None:
        state.share.requests(now, state.total_first())
        seen["share"] = state.share.left(now), [list(cell) for cell in state.share._cells]
    return seen


def copy_of(arm: Arm) -> State:
    """A copy of its state to look at, as asking some deciders moves them on."""
    copy: State = object.__new__(type(arm.state))
    memo: dict[int, Any] = {id(one): one for one in (arm, arm.state.lock)}
    for name in type(copy).__slots__:
        setattr(copy, name, deepcopy(getattr(arm.state, name), memo))
    return copy
