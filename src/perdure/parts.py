"""The frozen values users write for the parts of a Dependency: what each may be, and what cannot work.

Each is immutable and without state, so one may serve many dependencies; the state is the dependency's. Where
arithmetic is involved, the formula stands in the module under ``perdure.core`` that does it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from perdure.checks import (
    check_callable,
    check_flag,
    check_seconds,
    check_share,
    check_whole,
    refuse,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self

    from perdure.dependency import Dependency

__all__ = ["Breaker", "Budget", "Bulkhead", "Fallback", "Gate", "Hedge", "RateLimit", "Timeouts"]


class _Part:
    """What all parts can do."""

    __slots__ = ()

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields; raises ConfigError for a field that does not exist."""
        known = [one.name for one in fields(self) if one.init]  # type: ignore[arg-type] # each is a dataclass
        for name, value in changes.items():
            if name not in known:
                raise refuse(name, f"is not a field of {type(self).__name__} ({', '.join(known)})", value)
        return replace(self, **changes)  # type: ignore[type-var] # each is a dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker(_Part):
    """Stops calling a dependency that keeps failing, and finds out carefully when it is back.

    - ``failures`` (5): so many failures in a row, within ``window``, open it. None: not counted.
    - ``failure_rate`` (0.5): so does this share of failures in ``window`` seconds, of at least ``min_calls`` (20)
      results. None: not counted.
    - ``window`` (None): seconds; None: 30, or twice the attempt timeout if that is longer.
    - ``slow`` (None): a call that takes so many seconds or more is slow; ``slow_rate`` (None): this share of slow
      calls in the window opens it too.
    - ``cooldown`` (60 s): how long it stays open the first time; x 2 each further time up to ``max_cooldown``
      (300 s), shortened at random by up to a fifth, so that processes do not come back together. A delay that the
      server asked for is a floor.
    - ``probes`` (1): so many calls at a time may find out whether the dependency is back; ``successes`` (2) of
      them close the breaker, one failure opens it again. ``lease`` (None): seconds after which a probe that has
      not reported gives its place back; None: twice the attempt timeout, or 30.
    - ``ramp`` (True): after closing, the calls in flight are bounded, from a tenth of what they were up to all.
    - ``mode`` ("on"): "shadow" decides and reports and never refuses.

    Answers of the dependency, permanent faults included, are successes; 429 and local errors say nothing; timeouts,
    connection failures and 5xx are failures. Refused calls raise BreakerOpen. Raises ConfigError for values that
    cannot work. Immutable: share it between threads and tasks.
    """

    failures: int | None = 5
    failure_rate: float | None = 0.5
    min_calls: int = 20
    window: float | None = None
    slow: float | None = None
    slow_rate: float | None = None
    cooldown: float = 60
    max_cooldown: float = 300
    probes: int = 1
    successes: int = 2
    lease: float | None = None
    ramp: bool = True
    mode: Literal["on", "shadow"] = "on"

    def __post_init__(self) -> None:
        check_whole("failures", self.failures, least=1, optional=True)
        check_share("failure_rate", self.failure_rate, optional=True)
        check_whole("min_calls", self.min_calls, least=1)
        check_seconds("window", self.window, above=0, optional=True)
        check_seconds("slow", self.slow, above=0, optional=True)
        check_share("slow_rate", self.slow_rate, optional=True)
        check_seconds("cooldown", self.cooldown, above=0)
        check_seconds("max_cooldown", self.max_cooldown, above=0)
        check_whole("probes", self.probes, least=1)
        check_whole("successes", self.successes, least=1)
        check_seconds("lease", self.lease, above=0, optional=True)
        check_flag("ramp", self.ramp)
        if self.max_cooldown < self.cooldown:
            raise refuse("max_cooldown", f"must be at least cooldown ({self.cooldown!r})", self.max_cooldown)
        if self.mode not in ("on", "shadow"):
            raise refuse("mode", 'must be "on" or "shadow"', self.mode)
        if (self.slow is None) is not (self.slow_rate is None):
            raise refuse("slow_rate", f"and slow go together (slow={self.slow!r})", self.slow_rate)
        if self.failures is None and self.failure_rate is None and self.slow_rate is None:
            raise refuse("failures", "or failure_rate or slow_rate must be given, else it never opens", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts(_Part):
    """How long things may take, in seconds.

    - ``connect`` (5), ``read`` (10): for client libraries that know both; one attempt of any other async function
      gets their sum, unless ``Retry.attempt_timeout`` says otherwise. None: no bound.
    - ``total`` (None): the end of the whole call with its retries and waits; it interrupts async work.
    - ``adaptive`` (False): once 100 calls were seen, an attempt gets 1.2 x the 99.9th percentile of their
      latencies, never more than above and never less than 10 ms.

    Plain functions cannot be interrupted: they see what is left in ``perdure.time_left()``. Raises ConfigError for
    values that cannot work. Immutable: share it between threads and tasks.
    """

    connect: float | None = 5
    read: float | None = 10
    total: float | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        check_seconds("connect", self.connect, above=0, optional=True)
        check_seconds("read", self.read, above=0, optional=True)
        check_seconds("total", self.total, above=0, optional=True)
        check_flag("adaptive", self.adaptive)

    @property
    def attempt(self) -> float | None:
        """Seconds that one attempt may take: connect + read, or None where one of them is unbounded."""
        if self.connect is None or self.read is None:
            return None
        return self.connect + self.read


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(_Part):
    """How much of the traffic may be retries and hedges.

    Two forms. A token bucket that successes fill: ``per_success`` (None: 0.5 with a gate, else 0.1) for each, one
    token for each retry or hedge, at most ``cap`` (5, or attempts - 1 if that is more) in it, and ``start`` (None:
    attempts - 1) at first: when successes stop, so do retries. Or a share of traffic: with ``max_ratio=0.1,
    window=60``, at most a tenth of the calls of the last minute may be retried, and at least ``start`` of them.

    When it is empty, a call that would be retried ends at once with its original error. Raises ConfigError for
    values that cannot work. Immutable: share it between threads and tasks.
    """

    per_success: float | None = None
    cap: float = 5
    start: float | None = None
    max_ratio: float | None = None
    window: float = 60

    def __post_init__(self) -> None:
        check_seconds("per_success", self.per_success, above=0, optional=True, unit="number of tokens")
        check_seconds("cap", self.cap, above=0, unit="number of tokens")
        check_seconds("start", self.start, optional=True, unit="number of tokens")
        check_share("max_ratio", self.max_ratio, optional=True)
        check_seconds("window", self.window, above=0)
        if self.max_ratio is not None and self.per_success is not None:
            raise refuse("max_ratio", "and per_success are two forms of budget; give one", self.max_ratio)
        if self.window < 1:
            raise refuse("window", "must be at least 1 second", self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(_Part):
    """An adaptive limit on attempts on the wire, which cuts when it sees congestion.

    - ``ceiling`` (1000): the limit without congestion, where it also starts; ``floor`` (0.1): the least it goes
      down to; below 1 it is one attempt at a time, so many per second.

    It cuts when client timeouts, 429s and 503s are most of what came back lately (or a tenth, when successes
    became slow), not on other errors. ``Gate.throttle(k=2, window=5)`` is the other form, after Google's SRE book:
    a call is refused with probability max(0, (requests - k x accepts) / (requests + 1)).

    Refused first attempts raise Overloaded. Raises ConfigError for values that cannot work. Immutable: share it
    between threads and tasks.
    """

    ceiling: float = 1000
    floor: float = 0.1
    throttle_k: float | None = None
    throttle_window: float = 5

    def __post_init__(self) -> None:
        check_seconds("ceiling", self.ceiling, unit="number of attempts", above=0)
        check_seconds("floor", self.floor, unit="number of attempts", above=0)
        check_seconds("throttle_k", self.throttle_k, optional=True, unit="factor", above=0)
        check_seconds("throttle_window", self.throttle_window, above=0)
        if self.ceiling < 1:
            raise refuse("ceiling", "must be at least 1", self.ceiling)
        if self.floor > self.ceiling:
            raise refuse("floor", f"must be at most ceiling ({self.ceiling!r})", self.floor)
        if self.throttle_k is not None and self.throttle_k < 1:
            raise refuse("throttle_k", "must be at least 1", self.throttle_k)

    @classmethod
    def throttle(cls, *, k: float = 2, window: float = 5) -> Gate:
        """The throttle form: ``k`` times as many requests as were accepted in ``window`` seconds pass."""
        return cls(throttle_k=k, throttle_window=window)


@dataclass(frozen=True, slots=True)
class RateLimit(_Part):
    """At most ``limit`` attempts per ``per`` (1) seconds, evenly spaced, with ``burst`` (None: limit) at once.

    - ``max_wait`` (0): seconds that an attempt may wait for its turn, within its deadline; a longer wait, or any
      with 0, is refused with RateLimited.

    A delay that the server asks for (Retry-After) pauses it for all callers of the key. Raises ConfigError for
    values that cannot work. Immutable: share it between threads and tasks.
    """

    limit: float
    per: float = 1.0
    burst: int | None = None
    max_wait: float = 0

    def __post_init__(self) -> None:
        check_seconds("limit", self.limit, unit="number of attempts", above=0)
        check_seconds("per", self.per, above=0)
        check_whole("burst", self.burst, least=1, optional=True)
        check_seconds("max_wait", self.max_wait)


@dataclass(frozen=True, slots=True)
class Bulkhead(_Part):
    """At most ``limit`` (25) attempts at a time; ``queue`` (0) more may wait, ``max_wait`` (None) seconds at most.

    A place is free while a call waits between attempts, and only when the work has really ended: an attempt that
    goes on in a thread after its caller left keeps it. ``max_wait=None``: as long as the deadline allows. Refused
    calls raise BulkheadFull. Raises ConfigError for values that cannot work. Immutable: share it between threads
    and tasks.
    """

    limit: int = 25
    queue: int = 0
    max_wait: float | None = None

    def __post_init__(self) -> None:
        check_whole("limit", self.limit, least=1)
        check_whole("queue", self.queue, least=0)
        check_seconds("max_wait", self.max_wait, optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedge(_Part):
    """A second copy of an attempt that takes long; the first success wins and the other is cancelled.

    - ``delay`` (None): seconds before the copy is sent; None: the ``quantile`` (0.95) of the latencies so far, once
      20 are known.
    - ``max_hedges`` (1): copies per attempt.

    For operations that may be sent twice only. Copies are paid for from the budget, and none is sent while the gate
    is cut or the budget is half empty. Plain functions run in threads for it, and a loser there cannot be
    cancelled: its result is dropped. Raises ConfigError for values that cannot work. Immutable: share it between
    threads and tasks.
    """

    delay: float | None = None
    quantile: float = 0.95
    max_hedges: int = 1

    def __post_init__(self) -> None:
        check_seconds("delay", self.delay, optional=True)
        check_share("quantile", self.quantile)
        check_whole("max_hedges", self.max_hedges, least=1)


class _Unset:
    """Stands for a value that was not given, as None may be one."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"


UNSET = _Unset()


@dataclass(frozen=True, slots=True, init=False)
class Fallback(_Part):
    """What a call gives when it failed or was refused; one of four.

    ``Fallback(function)``: what the function returns, called with the call's arguments, or with the error first
    where its first parameter is named ``error``; it may be a coroutine function for async calls.
    ``Fallback(value=...)``: always this value. ``Fallback(to=other)``: the same call through another dependency.
    ``Fallback(last_good=300)``: the last value that the same function returned for the same arguments, at most so
    many seconds old; without one the error comes out.

    What a fallback itself raises comes out, with the first error as its context. Raises ConfigError where none or
    several are given. Immutable: share it between threads and tasks.
    """

    function: Callable[..., Any] | None
    value: Any
    to: Dependency | None
    last_good: float | None

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        value: Any = UNSET,
        to: Dependency | None = None,
        last_good: float | None = None,
    ) -> None:
        fill = object.__setattr__
        fill(self, "function", function)
        fill(self, "value", value)
        fill(self, "to", to)
        fill(self, "last_good", last_good)
        given = [name for name in ("function", "to", "last_good") if getattr(self, name) is not None]
        given += ["value"] if value is not UNSET else []
        if len(given) != 1:
            what = " and ".join(given) or "nothing"
            raise refuse("Fallback", "takes one of function, value=, to= and last_good=", what)
        if function is not None:
            check_callable("function", function)
        check_seconds("last_good", last_good, above=0, optional=True)
        if to is not None and not hasattr(to, "snapshot"):
            raise refuse("to", "must be a Dependency", to)


PARTS: dict[str, type] = {
    "timeouts": Timeouts,
    "budget": Budget,
    "gate": Gate,
    "breaker": Breaker,
    "rate_limit": RateLimit,
    "bulkhead": Bulkhead,
    "hedge": Hedge,
    "fallback": Fallback,
}
"""The parts by the names that a Dependency and files have for them."""
