"""Backoffs: frozen values that say how long to wait before retry ``n`` (counted from 1).

Every backoff has ``delay(n, previous, rng, *, u=None)`` in seconds. ``rng`` is a function that draws from
U[0, 1) (or an object with ``random()``), ``previous`` the delay before the last retry, ``u`` the one draw of
the call (coherent jitter). Results are finite, at least 0, at most the cap, and cost the same for retry 1
and retry 10**9.

Jitter turns the raw delay d into a draw, uniform in a range that is cut at the cap (cutting the draw instead
would pile up delays at the cap):

===========  ====================================================================================
"full"       [0, d]
"equal"      [d/2, d]
"coherent"   d (1/2 + u/2) within 10 %, u drawn once per call: phases differ, delays vary little
"none"       d
fraction f   [d (1 - f), d (1 + f)]
a callable   ``jitter(d, rng)``, its result cut to [0, cap]
===========  ====================================================================================

Sources: "Exponential Backoff and Jitter" (AWS Architecture Blog) for full, equal and decorrelated; the range
cut of decorrelated jitter follows Polly issue 530. All values are immutable and shared freely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, Protocol

    from perdure.core.shapes import AfterImmediate

    class Random(Protocol):
        """An object such as ``random.Random``."""

        def random(self) -> float: ...

    Draw = Callable[[], float]
    Jitter = Literal["full", "equal", "coherent", "none"] | float | Callable[[float, Draw], float]

__all__ = ["Backoff", "Exponential"]

NAMED_JITTERS = ("full", "equal", "coherent", "none")
LARGEST = 1e300  # seconds; what is added or multiplied here stays far below the end of floats
_WOBBLE = 0.1  # coherent jitter's own scatter: enough to part calls that drew nearly the same u


class Backoff:
    """Base of all backoffs; subclass it with ``_raw`` (and ``jitter``, ``cap``) to write your own.

    A subclass is a frozen dataclass with a field or attribute ``jitter`` and ``cap`` (``math.inf`` for none).
    Thread and task safe, as every backoff is an immutable value.
    """

    __slots__ = ()

    jitter: Jitter
    cap: float

    def delay(self, n: int, previous: float | None, rng: Draw | Random, *, u: float | None = None) -> float:
        """Seconds to wait before retry ``n``, between 0 and the cap.

        ``previous`` is the delay before retry ``n - 1`` (None or 0 for the first); only decorrelated jitter
        looks at it. Raises ConfigError when ``n`` is below 1.
        """
        if n < 1:
            raise refuse("n must be >= 1", n)
        draw: Draw = rng if callable(rng) else rng.random
        return self.drawn(n, previous, draw, u)

    def drawn(self, n: int, previous: float | None, draw: Draw, u: float | None) -> float:  # noqa: ARG002
        """``delay`` without checks, for the engine: ``draw`` is a function."""
        return jittered(self._raw(n), self.cap, self.jitter, draw, u)

    def typical(self, n: int) -> tuple[float, float]:
        """The lowest and the highest delay before retry ``n``; draws are uniform in between."""
        raw = self._raw(n)
        if callable(self.jitter):
            return 0.0, self.cap if self.cap < math.inf else raw
        return (
            jittered(raw, self.cap, self.jitter, lambda: 0.0, 0.0),
            jittered(raw, self.cap, self.jitter, lambda: 1.0, 1.0),
        )

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        raise NotImplementedError

    def after_immediate(self) -> AfterImmediate:
        """The same backoff behind one immediate retry: 0, then the delays of this one from its first."""
        from perdure.core.shapes import AfterImmediate

        return AfterImmediate(self)

    def _raw(self, n: int) -> float:
        """The delay before jitter, already cut at the cap."""
        raise NotImplementedError


def jittered(raw: float, cap: float, jitter: Jitter, draw: Draw, u: float | None) -> float:
    """Draw the delay for a raw one; see the table at the head of this module."""
    if jitter == "full":
        return raw * draw()
    if jitter == "none":
        return raw
    if jitter == "equal":
        return raw * (0.5 + 0.5 * draw())
    if jitter == "coherent":
        middle = raw * (0.5 + 0.5 * (draw() if u is None else u))
        return between(middle * (1 - _WOBBLE), min(cap, middle * (1 + _WOBBLE)), draw())
    if callable(jitter):
        return _own(jitter, raw, cap, draw)
    return between(raw * (1 - jitter), min(cap, raw * (1 + jitter)), draw())


def between(low: float, high: float, share: float) -> float:
    """A point of the range; min() because low + (high - low) can round above high."""
    return min(high, low + (high - low) * share)


def _own(jitter: Callable[[float, Draw], float], raw: float, cap: float, draw: Draw) -> float:
    """What a user's jitter makes of a delay, cut to [0, cap]; the raw delay where it gives no finite number."""
    try:
        value = jitter(raw, draw)
    except Exception as error:  # noqa: BLE001 - a hook never changes the outcome
        report(jitter, "jitter=", error)
        return raw
    if not is_finite(value):
        report(jitter, "jitter=", TypeError(f"it must return a finite number of seconds, got {value!r}"))
        return raw
    return min(cap, max(0.0, value))


def _say_nothing(hook: object, what: str, error: BaseException) -> None:
    """Until the engine, which has a log, puts its own function in place of this."""


report: Callable[[object, str, BaseException], None] = _say_nothing


@dataclass(frozen=True, slots=True)
class Exponential(Backoff):
    """base, base x factor, base x factor**2, ... up to ``cap`` seconds; full jitter unless told otherwise.

    Formula: d(n) = min(cap, base * factor**(n - 1)).
    ``Exponential(base=1, factor=2, cap=30, jitter="none")`` gives 1, 2, 4, 8, 16, 30.

    Raises ConfigError unless 0 <= base <= cap, factor >= 1 and all are finite. Immutable, shared freely.
    """

    base: float = 0.1
    factor: float = 2.0
    cap: float = 5.0
    jitter: Jitter = "full"

    def __post_init__(self) -> None:
        check_amount("cap", self.cap)
        check_amount("base", self.base, cap=self.cap)
        if not is_finite(self.factor) or self.factor < 1:
            raise refuse("factor must be a finite number >= 1", self.factor)
        check_jitter(self.jitter)

    def drawn(self, n: int, previous: float | None, draw: Draw, u: float | None) -> float:  # noqa: ARG002
        """``delay`` without checks, for the engine: ``draw`` is a function."""
        if self.jitter == "full":  # the default, without two more calls
            return self._raw(n) * draw()
        return jittered(self._raw(n), self.cap, self.jitter, draw, u)

    def _raw(self, n: int) -> float:
        # float() keeps an int factor from growing into a bignum; above 1e308 the cap was reached long ago.
        try:
            return min(self.cap, self.base * float(self.factor) ** (n - 1)) if self.base else 0.0
        except OverflowError:
            return self.cap

    def formula(self) -> str:
        """The rule in words, for ``explain()``."""
        return f"min({self.cap:g} s, {self.base:g} s x {self.factor:g}^(retry - 1))"


def is_finite(value: object) -> bool:
    """Whether it is a number that a float can hold; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -LARGEST <= value <= LARGEST  # also refuses NaN


def check_amount(field: str, value: float, *, cap: float | None = None) -> None:
    """Refuse what is not a finite number >= 0 (and <= cap)."""
    if not is_finite(value) or value < 0:
        raise refuse(f"{field} must be a finite number of seconds >= 0", value)
    if cap is not None and value > cap:
        raise refuse(f"{field} must be <= cap ({cap:g} s)", value)


def check_jitter(jitter: Jitter) -> None:
    if isinstance(jitter, str):
        if jitter in NAMED_JITTERS:
            return
    elif callable(jitter):
        from perdure.colour import is_coroutine_function

        if not is_coroutine_function(jitter):
            return
    elif is_finite(jitter) and 0 < jitter <= 1:
        return
    raise refuse(
        f"jitter must be one of {', '.join(NAMED_JITTERS)}, a fraction in (0, 1] or a plain callable", jitter
    )


def refuse(rule: str, value: object) -> Exception:
    from perdure.errors import ConfigError

    return ConfigError(f"{rule}, got {value!r}")


DEFAULT = Exponential()
"""The backoff of a policy that names none; throttled faults then use THROTTLED instead."""

THROTTLED = Exponential(base=1.0, cap=5.0)
"""Where the user gave no backoff: a server that says "slow down" gets a start of 1 s, not 0.1 s."""
