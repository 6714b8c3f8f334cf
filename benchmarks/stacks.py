"""Everything that is compared as a whole stack, as one table: ``STACKS``.

Wanted of all: five attempts on ``OSError`` with exponential backoff from 0.1 s up to 5 s and full jitter, and a
breaker that opens at five failures in a row. What the row wants on top is in its ``StackPlan``. perdure's default
Dependency has a budget and a gate in place of the breaker; the rows say which parts it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks import breakers, contenders, hand_breakers
from benchmarks.breakers import BreakerPlan, fresh_name
from benchmarks.contenders import HOUR, Contender, Decorator, NotOffered, Plan

Parts = Literal["default", "breaker", "lean", "rate"]
TOTAL = 30.0
RATE = 1e9
"""Calls per second that a rate limit allows: so many that none is ever refused."""


@dataclass(frozen=True, slots=True)
class StackPlan:
    """What a stack is asked to be. Seconds; ``None`` means without.

    ``parts`` are perdure's: "default" is retry, budget and gate; "breaker" adds one; "lean" is retry and breaker
    only; "rate" is the default with a rate limit, which then is asked of all.
    """

    colour: Literal["sync", "async"]
    parts: Parts = "default"
    total: float | None = None
    attempt_timeout: float | None = None

    @property
    def retry(self) -> Plan:
        """The retry alone."""
        return Plan(self.colour, self.total, self.attempt_timeout)

    @property
    def breaker(self) -> BreakerPlan:
        """The breaker alone."""
        return BreakerPlan(self.colour)


def bare(plan: StackPlan) -> Decorator:
    return lambda f: f


def hand(plan: StackPlan) -> Decorator:
    if plan.colour == "async":
        return lambda f: hand_breakers.retry_and_breaker_async(f, HOUR)
    return lambda f: hand_breakers.retry_and_breaker_locked(f, HOUR)


def hand_unlocked(plan: StackPlan) -> Decorator:
    return lambda f: hand_breakers.retry_and_breaker_unlocked(f, HOUR)


def hand_limited(plan: StackPlan) -> Decorator:
    return lambda f: hand_breakers.retry_breaker_and_limit_locked(f, HOUR, RATE)


def hand_and_timeout(plan: StackPlan) -> Decorator:
    seconds = plan.attempt_timeout
    if seconds is None:
        raise NotOffered("the row has no attempt timeout")
    return lambda f: hand_breakers.retry_breaker_and_timeout_async(f, HOUR, seconds)


def perdure(plan: StackPlan) -> Decorator:
    import perdure as library

    options: dict[str, Any] = {}
    if plan.parts in {"breaker", "lean"}:
        options["breaker"] = library.Breaker(
            failure_rate=None, ramp=plan.parts == "breaker", cooldown=HOUR, max_cooldown=HOUR
        )
    if plan.parts == "lean":
        options |= {"budget": None, "gate": None}
    if plan.parts == "rate":
        options["rate_limit"] = library.RateLimit(RATE)
    if plan.total is not None:
        options["timeouts"] = library.Timeouts(connect=None, read=None, total=plan.total)
    backoff = library.Exponential(base=0.1, factor=2, cap=5, jitter="full")
    retry = library.Retry(on=OSError, attempts=5, backoff=backoff, attempt_timeout=plan.attempt_timeout)
    return library.Dependency(fresh_name(), retry=retry, **options)


def _without_limit(plan: StackPlan) -> None:
    if plan.parts == "rate":
        raise NotOffered("no rate limit")


def tenacity_and_pybreaker(plan: StackPlan) -> Decorator:
    _without_limit(plan)
    retry, breaker = contenders.tenacity(plan.retry), breakers.pybreaker(plan.breaker)
    return lambda f: retry(breaker(f))


def tenacity_and_aiobreaker(plan: StackPlan) -> Decorator:
    _without_limit(plan)
    if plan.colour == "sync":
        raise NotOffered("see tenacity + pybreaker")
    retry, breaker = (
        contenders.tenacity(replace(plan.retry, attempt_timeout=None)),
        breakers.aiobreaker(plan.breaker),
    )
    return lambda f: retry(breaker(_timed(f, plan)))


def stamina_and_purgatory(plan: StackPlan) -> Decorator:
    _without_limit(plan)
    retry, breaker = (
        contenders.stamina(replace(plan.retry, attempt_timeout=None)),
        breakers.purgatory(plan.breaker),
    )
    return lambda f: retry(breaker(_timed(f, plan)))


def _timed(f: Any, plan: StackPlan) -> Any:
    """``asyncio.timeout`` round the function, inside the breaker, for those that have none."""
    from benchmarks.baselines import only_timeout

    return f if plan.attempt_timeout is None else only_timeout(f, plan.attempt_timeout)


def dogged(plan: StackPlan) -> Decorator:
    import dogged as library

    retry, breaker = contenders.dogged(plan.retry), breakers.dogged(plan.breaker)
    if plan.parts != "rate":
        return lambda f: retry(breaker(f))
    limit = library.rate_limit(calls=int(RATE), period=1.0)
    return lambda f: retry(breaker(limit(f)))


def pyresilience(plan: StackPlan) -> Decorator:
    import pyresilience as library

    if plan.total is not None:
        raise NotOffered("either a total timeout or one per attempt, and both cut")
    options: dict[str, Any] = {}
    if plan.parts == "rate":
        options["rate_limiter"] = library.RateLimiterConfig(max_calls=int(RATE), period=1.0)
    if plan.attempt_timeout is not None:
        options["timeout"] = library.TimeoutConfig(seconds=plan.attempt_timeout, per_attempt=True)
    return library.resilient(
        retry=library.RetryConfig(
            max_attempts=5, retry_on=(OSError,), delay=0.1, backoff_factor=2.0, max_delay=5.0
        ),
        circuit_breaker=library.CircuitBreakerConfig(
            failure_threshold=5, recovery_timeout=HOUR, error_types=(OSError,)
        ),
        **options,
    )


def nopanic(plan: StackPlan) -> Decorator:
    import nopanic as library

    layers: list[Any] = [] if plan.total is None else [library.deadline(plan.total)]
    backoff = library.backoff.full_jitter(0.1, 2.0, 5.0)
    layers += [library.retry(attempts=5, on=OSError, backoff=backoff), breakers.nopanic_breaker(HOUR)]
    if plan.parts == "rate":
        layers.append(library.rate_limit(RATE, max_wait=0.0))
    if plan.attempt_timeout is not None:
        layers.append(library.timeout(plan.attempt_timeout))
    return library.compose(*layers)


def interlock(plan: StackPlan) -> Decorator:
    from interlock.pipeline import Pipeline
    from tenacity import retry_if_exception_type, wait_random_exponential

    _without_limit(plan)
    if plan.total is not None:
        raise NotOffered("no deadline")
    on: Any = OSError
    if plan.attempt_timeout is not None:
        from interlock import CallTimeoutError

        on = (OSError, CallTimeoutError)
    builder = Pipeline.builder().retry(
        attempts=5, retry=retry_if_exception_type(on), wait=wait_random_exponential(multiplier=0.1, max=5)
    )
    builder = builder.circuit_breaker(breakers.interlock_breaker(HOUR))
    if plan.attempt_timeout is not None:
        builder = builder.timeout(plan.attempt_timeout)
    return builder.build()


def hyx(plan: StackPlan) -> Decorator:
    _without_limit(plan)
    retry, breaker = contenders.hyx(replace(plan.retry, attempt_timeout=None)), breakers.hyx(plan.breaker)
    if plan.attempt_timeout is None:
        return lambda f: retry(breaker(f))
    from hyx.timeout import timeout

    within = timeout(plan.attempt_timeout)
    return lambda f: retry(breaker(within(f)))


STACKS = {
    contender.name: contender
    for contender in (
        Contender("bare", bare, note="the function itself"),
        Contender("hand retry + breaker", hand, note="sync: a lock on entry and on exit"),
        Contender("hand, unlocked", hand_unlocked, note="the same without the lock; for information"),
        Contender("hand + limit", hand_limited, note="a rate limit under the same lock; for information"),
        Contender("hand + asyncio.timeout", hand_and_timeout, note="retry, breaker and asyncio.timeout"),
        Contender("perdure", perdure, "perdure"),
        Contender("tenacity + pybreaker", tenacity_and_pybreaker, "tenacity + pybreaker", "sync"),
        Contender(
            "tenacity + aiobreaker",
            tenacity_and_aiobreaker,
            "tenacity + aiobreaker",
            "async; attempt timeout: asyncio.timeout inside the breaker",
        ),
        Contender(
            "stamina + purgatory",
            stamina_and_purgatory,
            "stamina + purgatory",
            "attempt timeout: asyncio.timeout inside the breaker",
        ),
        Contender("dogged", dogged, "dogged", "sync only; its limit keeps the time of every call"),
        Contender("pyresilience", pyresilience, "pyresilience"),
        Contender("nopanic", nopanic, "nopanic", "its breaker has a window only"),
        Contender(
            "interlock", interlock, "interlock-cb", "its breaker has a window only; retries by tenacity"
        ),
        Contender("hyx", hyx, "hyx", "async only; ends in its own exception"),
    )
}
