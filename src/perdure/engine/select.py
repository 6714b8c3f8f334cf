"""Which failures a policy retries, and whether its fields can work; done once, when a policy is built."""

from __future__ import annotations

from perdure.colour import is_coroutine_function
from perdure.core.backoff import Backoff, is_finite
from perdure.core.decide import is_retried
from perdure.engine.hooks import agrees
from perdure.errors import ConfigError
from perdure.faults import FaultKind, Safety
from perdure.faults.verdict import verdict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.faults import Fault
    from perdure.policies import Retry


class Matcher:
    """One of ``on=`` and ``never=``: exception types, kinds and at most one predicate."""

    __slots__ = ("field", "kinds", "predicate", "types")

    def __init__(self, field: str, wanted: Any) -> None:
        self.field: str = field
        self.predicate: Callable[[Exception], object] | None = None
        parts: tuple[Any, ...] = wanted if isinstance(wanted, tuple) else (wanted,)  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
        self.types: tuple[type[Exception], ...] = tuple(one for one in parts if isinstance(one, type))
        self.kinds: tuple[FaultKind, ...] = tuple(one for one in parts if isinstance(one, FaultKind))
        for one in parts:
            self._take(one, alone=not isinstance(wanted, tuple))

    def _take(self, one: Any, *, alone: bool) -> None:
        if isinstance(one, FaultKind):
            return
        if isinstance(one, type):
            if not issubclass(one, Exception):
                raise ConfigError(
                    f"{self.field} takes Exception types; BaseExceptions always pass, got {one!r}"
                )
        elif alone and callable(one) and not isinstance(one, (str, Backoff)):
            _refuse_coroutine(self.field, one)
            self.predicate = one
        else:
            raise ConfigError(
                f"{self.field} must be exception types, FaultKinds, a tuple of these, or one predicate, got {one!r}"
            )

    def __call__(self, error: Exception, fault: Fault) -> bool:
        """Whether the failure is one of those meant."""
        if self.types and isinstance(error, self.types):
            return True
        if self.kinds and fault.kind in self.kinds:
            return True
        return self.predicate is not None and agrees(self.predicate, f"{self.field}=", error)


class Selector:
    """``never`` wins, then the user's verdict on the exception, then ``on``, then the kind of the fault."""

    __slots__ = ("never", "on", "only_types")

    def __init__(self, on: Matcher | None, never: Matcher | None) -> None:
        self.on: Matcher | None = on
        self.never: Matcher | None = never
        plain = on is not None and never is None and not on.kinds and on.predicate is None
        self.only_types: tuple[type[Exception], ...] | None = on.types if plain and on is not None else None

    def denies(self, error: Exception, fault: Fault) -> bool:
        """Whether ``never`` forbids it."""
        return self.never is not None and self.never(error, fault)

    def __call__(self, error: Exception, fault: Fault) -> bool:
        """Whether to retry. Where the error bears no mark, ``only_types`` (if there is) says the same."""
        if self.denies(error, fault):
            return False
        if self.on is None or verdict_of(error) is not None:
            return is_retried(fault)
        return self.on(error, fault)


def make_selector(on: Any, never: Any) -> Selector | None:
    """The selector for these fields, or None where the kind alone decides."""
    if on is None and never is None:
        return None
    return Selector(
        None if on is None else Matcher("on", on), None if never is None else Matcher("never", never)
    )


def check(policy: Retry) -> None:
    """Refuse fields that cannot work, each with its name, range and value."""
    _check_attempts(policy)
    if not isinstance(policy.backoff, Backoff):
        raise ConfigError(f"backoff must be a backoff such as perdure.Exponential(), got {policy.backoff!r}")
    _check_seconds("deadline", policy.deadline, zero=True, forever=True)
    _check_seconds("attempt_timeout", policy.attempt_timeout, zero=False)
    _check_seconds("hint_cap", policy.hint_cap, zero=True, optional=False)
    if not is_finite(policy.shrink) or not 0 < policy.shrink <= 1:
        raise ConfigError(f"shrink must be a factor in (0, 1], got {policy.shrink!r}")
    if policy.safety is not None and not isinstance(policy.safety, Safety):
        raise ConfigError(f"safety must be Safety.SAFE, KEYED or UNSAFE, got {policy.safety!r}")
    if policy.nested not in ("inner", "outer", "both"):
        raise ConfigError(f'nested must be "inner", "outer" or "both", got {policy.nested!r}')
    if policy.name is not None and (not isinstance(policy.name, str) or not policy.name):
        raise ConfigError(f"name must be a string that is not empty, got {policy.name!r}")
    _check_hook("reject", policy.reject)
    if policy.refresh is not None and not callable(policy.refresh):
        raise ConfigError(f"refresh must be a callable without arguments, got {policy.refresh!r}")
    if policy.on_exhausted != "return":
        _check_hook("on_exhausted", policy.on_exhausted)


def delays(policy: Retry, n: int | None, seed: int | None) -> tuple[float, ...]:
    """See ``Retry.delays``."""
    from random import Random

    count = n if n is not None else 10 if policy.attempts is None else policy.attempts - 1
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ConfigError(f"n must be a whole number >= 0, got {n!r}")
    draw = Random(seed).random
    u, previous = draw(), None
    drawn: list[float] = []
    for retry in range(1, count + 1):
        previous = policy.backoff.drawn(retry, previous, draw, u)
        drawn.append(previous)
    return tuple(drawn)


def _check_attempts(policy: Retry) -> None:
    attempts = policy.attempts
    if attempts is None:
        if policy.deadline is None:
            raise ConfigError(
                "attempts=None needs a deadline; for no bound at all write deadline=perdure.FOREVER, got None"
            )
    elif not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ConfigError(f"attempts must be a whole number >= 1, or None, got {attempts!r}")


def _check_seconds(
    field: str, value: float | None, *, zero: bool, optional: bool = True, forever: bool = False
) -> None:
    if value is None and optional:
        return
    if forever and value is not None and getattr(value, "in_words", False):
        return
    least = ">= 0" if zero else "> 0"
    if not is_finite(value) or not (value >= 0 if zero else value > 0):  # type: ignore[operator] # a number
        raise ConfigError(f"{field} must be a finite number of seconds {least}, got {value!r}")


def _check_hook(field: str, hook: Any) -> None:
    if hook is None:
        return
    if not callable(hook):
        raise ConfigError(f"{field} must be a callable, got {hook!r}")
    _refuse_coroutine(field, hook)


def _refuse_coroutine(field: str, hook: Callable[..., Any]) -> None:
    if is_coroutine_function(hook):
        raise ConfigError(
            f"{field} must be a plain function, as it decides at once, got the coroutine function {hook!r}"
        )
