"""Everything that is compared as a breaker alone, as one table: ``BREAKERS``.

Wanted of all: open at the fifth ``OSError`` in a row, or, in rows with a window, where half of at least 20 calls
of the last 30 seconds failed; stay open for ``cooldown`` seconds; no retry. Each build is a breaker of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Literal

from benchmarks import hand_breakers
from benchmarks.contenders import HOUR, Contender, Decorator, NotOffered

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class BreakerPlan:
    """What a breaker is asked to be. ``ramp``: perdure bounds the calls in flight after closing."""

    colour: Literal["sync", "async"]
    window: bool = False
    ramp: bool = False
    cooldown: float = HOUR
    attempt_timeout: None = None


def fresh_name() -> str:
    """A name that no breaker has: two of one name share their state in some libraries."""
    return f"bench-{next(_numbers)}"


def only_consecutive(plan: BreakerPlan) -> None:
    """Raise NotOffered where a rate in a window is asked for."""
    if plan.window:
        raise NotOffered("counts failures in a row only")


def only_window(plan: BreakerPlan) -> None:
    """Raise NotOffered where failures in a row are asked for."""
    if not plan.window:
        raise NotOffered("counts a rate in a window only")


def bare(plan: BreakerPlan) -> Decorator:
    return lambda f: f


def hand(plan: BreakerPlan) -> Decorator:
    wrap = hand_breakers.breaker_sync if plan.colour == "sync" else hand_breakers.breaker_async
    b = hand_breakers.State()
    return lambda f: wrap(f, plan.cooldown, b)


def perdure(plan: BreakerPlan) -> Decorator:
    import perdure as library

    own: dict[str, Any] = {} if plan.window else {"failure_rate": None}
    breaker = library.Breaker(
        ramp=plan.ramp, cooldown=plan.cooldown, max_cooldown=plan.cooldown, successes=1, **own
    )
    return library.Dependency(fresh_name(), retry=None, budget=None, gate=None, breaker=breaker)


def pybreaker(plan: BreakerPlan) -> Decorator:
    import pybreaker as library

    only_consecutive(plan)
    if plan.colour == "async":
        raise NotOffered("sync only (async for Tornado)")
    return library.CircuitBreaker(fail_max=5, reset_timeout=plan.cooldown, throw_new_error_on_trip=False)


def circuitbreaker(plan: BreakerPlan) -> Decorator:
    import circuitbreaker as library

    only_consecutive(plan)
    return library.CircuitBreaker(
        failure_threshold=5, recovery_timeout=plan.cooldown, expected_exception=OSError
    )


def aiobreaker(plan: BreakerPlan) -> Decorator:
    import aiobreaker as library

    only_consecutive(plan)
    return library.CircuitBreaker(fail_max=5, timeout_duration=timedelta(seconds=plan.cooldown))


def purgatory(plan: BreakerPlan) -> Decorator:
    import purgatory as library

    only_consecutive(plan)
    kind = library.SyncCircuitBreakerFactory if plan.colour == "sync" else library.AsyncCircuitBreakerFactory
    return kind(default_threshold=5, default_ttl=plan.cooldown)(fresh_name())


def interlock(plan: BreakerPlan) -> Decorator:
    only_window(plan)
    return interlock_breaker(plan.cooldown)


def interlock_breaker(cooldown: float) -> Any:
    """Interlock's breaker with a window, which is the only kind that it has."""
    from interlock import CircuitBreaker, Config, WindowType

    config = Config(
        failure_rate_threshold=0.5,
        minimum_number_of_calls=20,
        window_type=WindowType.TIME_BASED,
        window_size=30,
        permitted_calls_in_half_open=1,
        wait_duration_in_open=cooldown,
    )
    return CircuitBreaker(name=fresh_name(), config=config)


def hyx(plan: BreakerPlan) -> Decorator:
    from hyx.circuitbreaker import consecutive_breaker

    only_consecutive(plan)
    if plan.colour == "sync":
        raise NotOffered("async only")
    on: Any = OSError
    return consecutive_breaker(
        exceptions=on, failure_threshold=5, recovery_time_secs=plan.cooldown, recovery_threshold=1
    )


def pyresilience(plan: BreakerPlan) -> Decorator:
    import pyresilience as library

    window = {"sliding_window_size": 100, "failure_rate_threshold": 0.5, "minimum_calls": 20}
    config: Any = partial(library.CircuitBreakerConfig, **(window if plan.window else {}))
    return library.resilient(
        circuit_breaker=config(
            failure_threshold=5, recovery_timeout=plan.cooldown, success_threshold=1, error_types=(OSError,)
        )
    )


def nopanic(plan: BreakerPlan) -> Decorator:
    only_window(plan)
    return nopanic_breaker(plan.cooldown)


def nopanic_breaker(cooldown: float) -> Any:
    """Nopanic's breaker with a window, which is the only kind that it has."""
    import nopanic as library

    return library.CircuitBreaker(
        failure_threshold=0.5, min_calls=20, window=30.0, reset_timeout=cooldown, on=OSError
    )


def dogged(plan: BreakerPlan) -> Decorator:
    import dogged as library

    only_consecutive(plan)
    if plan.colour == "async":
        raise NotOffered("sync only")
    return library.circuit_breaker(
        failure_threshold=5, recovery_timeout=plan.cooldown, expected_exception=OSError
    )


BREAKERS = {
    contender.name: contender
    for contender in (
        Contender("bare", bare, note="the function itself"),
        Contender("hand breaker", hand, note="no lock, no window; any number of callers may probe"),
        Contender("perdure", perdure, "perdure"),
        Contender("pybreaker", pybreaker, "pybreaker", "every exception counts; sync only"),
        Contender("circuitbreaker", circuitbreaker, "circuitbreaker", "no lock"),
        Contender("aiobreaker", aiobreaker, "aiobreaker", "every exception counts; no lock"),
        Contender("purgatory", purgatory, "purgatory", "every exception counts"),
        Contender("interlock", interlock, "interlock-cb", "windows only"),
        Contender("hyx", hyx, "hyx", "async only"),
        Contender("pyresilience", pyresilience, "pyresilience", "its window is the last 100 calls"),
        Contender("nopanic", nopanic, "nopanic", "windows only"),
        Contender("dogged", dogged, "dogged", "sync only"),
    )
}

BREAKER_PEERS = tuple(name for name, one in BREAKERS.items() if one.distribution not in {None, "perdure"})
