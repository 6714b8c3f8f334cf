"""What a failure is taken to be: the words the rest of the library decides with."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["RETRIED", "Fault", "FaultKind", "Retryable", "Safety", "refusal", "seconds"]


class FaultKind(StrEnum):
    """What a failure says about the next attempt. Immutable, safe to share everywhere.

    `TRANSIENT`: the work was not done and the next attempt may succeed. `THROTTLED`: the server asks
    for less; the delay is longer and its hint is the floor. `AMBIGUOUS`: the effect may have happened,
    so only safe or keyed operations are retried. `STALE`: refresh a token, connection or metadata
    first. `PERMANENT`: the next attempt fails in the same way. `NEUTRAL`: says nothing about the
    dependency (a cancellation, a local refusal, a conflict in progress).
    """

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    AMBIGUOUS = "ambiguous"
    STALE = "stale"
    PERMANENT = "permanent"
    NEUTRAL = "neutral"


class Safety(StrEnum):
    """Whether an operation may be sent twice. Immutable, safe to share everywhere.

    `SAFE`: idempotent. `KEYED`: carries an idempotency key. `UNSAFE`: each attempt may act again.
    """

    SAFE = "safe"
    KEYED = "keyed"
    UNSAFE = "unsafe"


class Retryable(StrEnum):
    """The six kinds in three, for people who think in three; `NO` is false in a condition.

    Immutable, safe to share everywhere.
    """

    NO = "no"
    YES = "yes"
    AFTER = "yes with the server's delay"

    def __bool__(self) -> bool:
        """Whether another attempt makes sense."""
        return self is not Retryable.NO


_INFINITE = float("inf")
RETRIED = frozenset({FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS})
"""The kinds that are worth another attempt, so that a delay means something."""


class Fault:
    """A failure as the classifier sees it. Frozen, so threads and tasks may share one.

    `hint` is the delay in seconds that the server asked for, or None; `why` is a short phrase for people.

    Raises:
        ConfigError: `kind` is not a `FaultKind`, or `hint` is not a finite number of seconds >= 0.
    """

    # By hand: the decorator of dataclasses takes a millisecond, and every `import perdure` would pay it.
    __slots__ = ("hint", "kind", "why")
    __match_args__ = ("kind", "hint", "why")

    kind: FaultKind
    hint: float | None
    why: str

    def __init__(self, kind: FaultKind, hint: float | None = None, why: str = "") -> None:
        if not isinstance(kind, FaultKind):
            raise refusal(f"kind must be a FaultKind, got {kind!r}")
        fill = object.__setattr__
        fill(self, "kind", kind)
        fill(self, "hint", None if hint is None else seconds("hint", hint))
        fill(self, "why", why)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Fault is frozen: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Fault is frozen: cannot delete {name}")

    def __reduce__(self) -> tuple[type[Fault], tuple[FaultKind, float | None, str]]:
        return type(self), (self.kind, self.hint, self.why)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.kind, self.hint, self.why) == (other.kind, other.hint, other.why)

    def __hash__(self) -> int:
        return hash((self.kind, self.hint, self.why))

    def __repr__(self) -> str:
        return f"Fault(FaultKind.{self.kind.name}, hint={self.hint}, why={self.why!r})"

    @property
    def retryable(self) -> Retryable:
        """No, yes, or yes with the server's delay.

        `STALE` counts as no: the same call again fails in the same way until something is refreshed.
        """
        if self.kind not in RETRIED:
            return Retryable.NO
        return Retryable.YES if self.hint is None else Retryable.AFTER


def seconds(field: str, value: object) -> float:
    """Give `value` as float seconds; a `ConfigError` that names `field` when it is not finite and >= 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int of hundreds of digits
            number = _INFINITE
        if 0 <= number < _INFINITE:  # false for NaN as well
            return number
    raise refusal(f"{field} must be a finite number of seconds >= 0, got {value!r}")


def refusal(message: str) -> Exception:
    """Make the error for bad input; the caller raises it."""
    from perdure.errors import ConfigError

    return ConfigError(message)
