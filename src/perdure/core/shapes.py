"""The other backoffs: linear, incremental, constant, fibonacci, scheduled, decorrelated.

What ``delay`` and ``jitter`` mean is written in ``perdure.core.backoff``, which is a module of its own because
every program that imports perdure loads it. All values are immutable and shared freely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perdure.core.backoff import Backoff, Exponential, between, check_amount, check_jitter, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from perdure.core.backoff import Draw, Jitter

__all__ = ["AfterImmediate", "Constant", "Decorrelated", "Fibonacci", "Incremental", "Linear", "Schedule"]


@dataclass(frozen=True, slots=True)
class Linear(Backoff):
    """step, 2 x step, 3 x step, ... up to ``cap`` seconds (default 60); full jitter unless told otherwise.

    Formula: d(n) = min(cap, step * n). Raises ConfigError unless 0 <= step <= cap. Immutable, shared freely.
    """

    step: float
    cap: float = 60.0
    jitter: Jitter = "full"

    def __post_init__(self) -> None:
        check_amount("cap", self.cap)
        check_amount("step", self.step, cap=self.cap)
        check_jitter(self.jitter)

    def _raw(self, n: int) -> float:
        return min(self.cap, self.step * n)

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"min({self.cap:g} s, {self.step:g} s x retry)"


@dataclass(frozen=True, slots=True)
class Incremental(Backoff):
    """first, first + step, first + 2 x step, ... up to ``cap`` seconds (default 60); full jitter by default.

    Formula: d(n) = min(cap, first + step * (n - 1)).
    Raises ConfigError unless 0 <= first <= cap and step >= 0. Immutable, shared freely.
    """

    first: float
    step: float
    cap: float = 60.0
    jitter: Jitter = "full"

    def __post_init__(self) -> None:
        check_amount("cap", self.cap)
        check_amount("first", self.first, cap=self.cap)
        check_amount("step", self.step)
        check_jitter(self.jitter)

    def _raw(self, n: int) -> float:
        return min(self.cap, self.first + self.step * (n - 1))

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"min({self.cap:g} s, {self.first:g} s + {self.step:g} s x (retry - 1))"


@dataclass(frozen=True, slots=True)
class Constant(Backoff):
    """The same delay each time, in seconds, exact unless ``jitter`` is given.

    There is no cap: a fraction f draws from [delay (1 - f), delay (1 + f)].
    Raises ConfigError unless delay is finite and >= 0. Immutable, shared freely.
    """

    # Named so that the constructor reads Constant(delay); the method of that name is the base's.
    seconds: float
    jitter: Jitter = "none"

    def __init__(
        self, delay: float | None = None, jitter: Jitter = "none", *, seconds: float | None = None
    ) -> None:
        given: Any = seconds if delay is None else delay  # seconds: as dataclasses.replace() calls it
        object.__setattr__(self, "seconds", given)
        object.__setattr__(self, "jitter", jitter)
        check_amount("delay", given)
        check_jitter(jitter)

    @property
    def cap(self) -> float:  # type: ignore[override] # a constant delay has none
        """Infinite: nothing cuts a constant delay."""
        return math.inf

    def _raw(self, n: int) -> float:  # noqa: ARG002 - the same for every retry
        return self.seconds

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"{self.seconds:g} s"

    def __repr__(self) -> str:
        return f"Constant(delay={self.seconds!r}, jitter={self.jitter!r})"


@dataclass(frozen=True, slots=True)
class Fibonacci(Backoff):
    """unit x 1, 1, 2, 3, 5, 8, ... up to ``cap`` seconds (default 60); full jitter unless told otherwise.

    Raises ConfigError unless 0 <= unit <= cap. Immutable, shared freely.
    """

    unit: float = 1.0
    cap: float = 60.0
    jitter: Jitter = "full"

    def __post_init__(self) -> None:
        check_amount("cap", self.cap)
        check_amount("unit", self.unit, cap=self.cap)
        check_jitter(self.jitter)

    def _raw(self, n: int) -> float:
        # F(78) is the last that a float holds exactly; every cap / unit in use is far below it.
        return (
            min(self.cap, self.unit * (_FIBONACCI[n - 1] if n <= len(_FIBONACCI) else math.inf))
            if self.unit
            else 0.0
        )

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"min({self.cap:g} s, {self.unit:g} s x Fibonacci(retry))"


@dataclass(frozen=True, slots=True)
class Schedule(Backoff):
    """Exactly these delays in seconds, then the last one for every further retry.

    ``Schedule([1, 2, 5])``; exact unless ``jitter`` is given. Raises ConfigError for an empty schedule or a
    delay that is not finite and >= 0. Immutable, shared freely.
    """

    steps: tuple[float, ...]
    jitter: Jitter = "none"

    def __init__(
        self,
        delays: Sequence[float] | None = None,
        jitter: Jitter = "none",
        *,
        steps: Sequence[float] | None = None,
    ) -> None:
        given: Any = steps if delays is None else delays  # steps: as dataclasses.replace() calls it
        try:
            listed = tuple(given)
        except TypeError:
            listed = ()
        if not listed:
            raise refuse("delays must be a sequence of at least one delay", given)
        for index, step in enumerate(listed):
            check_amount(f"delays[{index}]", step)
        object.__setattr__(self, "steps", listed)
        object.__setattr__(self, "jitter", jitter)
        check_jitter(jitter)

    @property
    def cap(self) -> float:  # type: ignore[override] # a schedule has none
        """Infinite: nothing cuts a scheduled delay."""
        return math.inf

    def _raw(self, n: int) -> float:
        return self.steps[min(n, len(self.steps)) - 1]

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"{', '.join(f'{step:g}' for step in self.steps)} s, then the last"

    def __repr__(self) -> str:
        return f"Schedule(delays={list(self.steps)!r}, jitter={self.jitter!r})"


@dataclass(frozen=True, slots=True)
class Decorrelated(Backoff):
    """Each delay is drawn from [base, 3 x the previous delay], the range cut at ``cap`` seconds.

    Formula: d(n) = uniform(base, max(base, min(cap, 3 * d(n - 1)))), with d(0) = base.
    It is its own jitter. Raises ConfigError unless 0 <= base <= cap. Immutable, shared freely.
    """

    base: float = 0.1
    cap: float = 5.0

    def __post_init__(self) -> None:
        check_amount("cap", self.cap)
        check_amount("base", self.base, cap=self.cap)

    @property
    def jitter(self) -> Jitter:  # type: ignore[override] # not to be chosen
        """The name of its own rule."""
        return "full"

    def drawn(self, n: int, previous: float | None, draw: Draw, u: float | None) -> float:  # noqa: ARG002
        """``delay`` without checks, for the engine: ``draw`` is a function."""
        high = max(self.base, min(self.cap, 3 * (previous or self.base)))
        return between(self.base, high, draw())

    def typical(self, n: int) -> tuple[float, float]:
        """The lowest and the highest delay before retry ``n``."""
        return self.base, self._raw(n)

    def _raw(self, n: int) -> float:
        return Exponential(min(self.base * 3, self.cap), 3, self.cap, "none")._raw(n)

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"uniform({self.base:g} s, min({self.cap:g} s, 3 x previous))"


@dataclass(frozen=True, slots=True)
class AfterImmediate(Backoff):
    """No wait before the first retry, then the delays of ``then`` from its first; see ``after_immediate()``."""

    then: Backoff

    @property
    def jitter(self) -> Jitter:  # type: ignore[override] # that of the backoff it leads into
        """The jitter of the backoff that follows."""
        return self.then.jitter

    @property
    def cap(self) -> float:  # type: ignore[override] # that of the backoff it leads into
        """The cap of the backoff that follows."""
        return self.then.cap

    def drawn(self, n: int, previous: float | None, draw: Draw, u: float | None) -> float:
        """``delay`` without checks, for the engine: ``draw`` is a function."""
        return 0.0 if n == 1 else self.then.drawn(n - 1, previous, draw, u)

    def typical(self, n: int) -> tuple[float, float]:
        """The lowest and the highest delay before retry ``n``."""
        return (0.0, 0.0) if n == 1 else self.then.typical(n - 1)

    def _raw(self, n: int) -> float:
        return 0.0 if n == 1 else self.then._raw(n - 1)

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"0 s once, then {self.then.formula()}"


def _fibonacci(count: int) -> tuple[int, ...]:
    numbers = [1, 1]
    while len(numbers) < count:
        numbers.append(numbers[-1] + numbers[-2])
    return tuple(numbers)


_FIBONACCI = _fibonacci(78)
