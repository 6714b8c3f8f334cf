"""The values of a dependency together: what they contradict each other in, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from perdure.checks import check_callable, refuse
from perdure.engine.kit import Kit
from perdure.faults import Safety
from perdure.parts import PARTS, Timeouts
from perdure.policies import UNWRITTEN_DEADLINE, Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.parts import Breaker, Budget, Bulkhead, Fallback, Gate, Hedge, RateLimit

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user of a dependency wrote. Immutable."""

    retry: Retry | None
    timeouts: Timeouts | None
    budget: Budget | None
    gate: Gate | None
    breaker: Breaker | None
    rate_limit: RateLimit | None
    bulkhead: Bulkhead | None
    hedge: Hedge | None
    fallback: Fallback | None
    safety: Safety | None
    on_exhausted: Callable[..., object] | None
    key: Callable[..., Any] | None

    def check(self) -> None:
        """Refuse values of the wrong kind, and those that contradict each other."""
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise refuse(name, f"must be a {kind.__name__}, or None", value)
        for name in ("on_exhausted", "key"):
            if getattr(self, name) is not None:
                check_callable(name, getattr(self, name))
        _check_times(self)
        _check_repeats(self)

    @property
    def attempt_timeout(self) -> float | None:
        """Seconds that one attempt of an async function may take."""
        if self.retry is not None and self.retry.attempt_timeout is not None:
            return self.retry.attempt_timeout
        return None if self.timeouts is None else self.timeouts.attempt

    def policy(self) -> Retry:
        """The Retry that calls go by."""
        total = None if self.timeouts is None else self.timeouts.total
        made = self.retry if self.retry is not None else self._single()
        changes: dict[str, Any] = {}
        if (self.retry is None or made.deadline is UNWRITTEN_DEADLINE) and total is not None:
            changes["deadline"] = total
        if made.attempt_timeout is None and self.attempt_timeout is not None:
            limit = self.attempt_timeout if total is None else min(self.attempt_timeout, total)
            changes["attempt_timeout"] = limit
        if self.safety is not None:
            changes["safety"] = self.safety
        if self.on_exhausted is not None:
            changes["on_exhausted"] = self.on_exhausted
        return made.replace(**changes) if changes else made

    def _single(self) -> Retry:
        """Single attempts; a deadline only where something else than an attempt is waited for."""
        waits = self.rate_limit is not None or self.bulkhead is not None
        return Retry(attempts=1, deadline=UNWRITTEN_DEADLINE if waits else None)

    def kit(self) -> Kit:
        """The parts with state."""
        attempts = 1 if self.retry is None else self.retry.attempts
        return Kit(
            breaker_rule=self.breaker,
            budget_rule=self.budget,
            gate_rule=self.gate,
            rate_rule=self.rate_limit,
            bulkhead_rule=self.bulkhead,
            attempts=4 if attempts is None else attempts,
            attempt_timeout=self.attempt_timeout,
            is_adaptive=self.timeouts is not None and self.timeouts.adaptive,
            hint_cap=300.0 if self.retry is None else self.retry.hint_cap,
        )

    def shown(self) -> str:
        """The values that were given, for a repr."""
        return "".join(
            f", {one.name}={value!r}"
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None and one.name not in {"retry", "budget", "gate"}
        )


_KINDS: dict[str, type] = {"retry": Retry, **PARTS, "safety": Safety}


def _check_times(given: Settings) -> None:
    timeouts, breaker, hedge, attempt = given.timeouts, given.breaker, given.hedge, given.attempt_timeout
    if timeouts is not None and timeouts.total is not None:
        _check_total(given, timeouts.total)
    if timeouts is not None and timeouts.adaptive and attempt is None:
        raise refuse(
            "adaptive", "needs connect and read, or Retry.attempt_timeout, as a bound", timeouts.adaptive
        )
    if attempt is None:
        return
    if breaker is not None and breaker.window is not None and breaker.window < 2 * attempt:
        raise refuse("window", f"must be at least twice the attempt timeout ({attempt!r} s)", breaker.window)
    if hedge is not None and hedge.delay is not None and hedge.delay >= attempt:
        raise refuse("hedge: delay", f"must be less than the attempt timeout ({attempt!r} s)", hedge.delay)


def _check_total(given: Settings, total: float) -> None:
    """What the user wrote may not be longer than the end of the whole call; defaults are cut to it."""
    retry, timeouts, usual = given.retry, given.timeouts, Timeouts()
    written: dict[str, float | None] = {}
    if retry is not None:
        written["attempt_timeout"] = retry.attempt_timeout
        written["deadline"] = None if retry.deadline is UNWRITTEN_DEADLINE else retry.deadline
    for name in ("connect", "read"):
        value = getattr(timeouts, name)
        written[name] = None if value == getattr(usual, name) else value
    for name, part in (("rate_limit", given.rate_limit), ("bulkhead", given.bulkhead)):
        written[f"{name}: max_wait"] = None if part is None else part.max_wait
    for name, value in written.items():
        if value is not None and value > total:
            raise refuse(name, f"must be at most Timeouts.total ({total!r})", value)


def _check_repeats(given: Settings) -> None:
    retry = given.retry
    if retry is not None and given.safety is not None and retry.safety not in {None, given.safety}:
        raise refuse("safety", f"contradicts Retry.safety ({retry.safety!r})", given.safety)
    safety = given.safety or (None if retry is None else retry.safety)
    if given.hedge is not None and safety is Safety.UNSAFE:
        raise refuse("hedge", "sends an operation twice, which safety=UNSAFE forbids", given.hedge)
    if given.on_exhausted is not None and retry is not None and retry.on_exhausted is not None:
        raise refuse("on_exhausted", "is given by the Retry as well; give one", given.on_exhausted)
    if given.budget is not None and given.budget.max_ratio is None:
        attempts = 1 if retry is None else retry.attempts or 1
        start, cap = given.budget.start, max(given.budget.cap, attempts - 1)
        if start is not None and start > cap:
            raise refuse("start", f"must be at most cap ({cap!r})", start)
