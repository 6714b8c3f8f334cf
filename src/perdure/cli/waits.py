"""``--wait``: a backoff written in one word.

=====================================  ===================================================================
const:2s                               Constant(2)
exp:0.5s..30s                          Exponential(base=0.5, cap=30)
exp:0.5s..30s*3,equal                  the same with factor=3 and jitter="equal"
exp:0.5s..30s,decorrelated             Decorrelated(base=0.5, cap=30); also written decorrelated:0.5s..30s
linear:1s..30s                         Linear(step=1, cap=30)
fib:1s..60s                            Fibonacci(unit=1, cap=60)
list:1s,2s,5s                          Schedule([1, 2, 5])
2s                                     the same as const:2s
=====================================  ===================================================================

After the last comma may stand a jitter: full, equal, coherent, none, or a share such as 10%.
Without one the default of the backoff named at the right holds: full, and none for const and list.
Names and meaning are those of the library; what the library refuses is refused here in the same words.
"""

from __future__ import annotations

from perdure.durations import seconds
from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.backoff import Backoff

__all__ = ["read_wait"]

_JITTERS = ("full", "equal", "coherent", "none")
_RANGES = {"exp": "base", "linear": "step", "fib": "unit", "decorrelated": "base"}
_FORMS = (
    "const:2s, exp:0.5s..30s, exp:0.5s..30s*3,equal, linear:1s..30s, fib:1s..60s, decorrelated:1s..30s "
    "or list:1s,2s,5s"
)


def read_wait(text: str, field: str = "--wait") -> Backoff:
    """Read a backoff. Raises ConfigError naming what in it is wrong. Pure: safe anywhere."""
    kind, colon, rest = text.strip().partition(":")
    if not colon and kind[:1].isdigit():
        kind, rest = "const", kind
    try:
        return _read(kind.strip().lower(), rest, field)
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if message.startswith(field) else f"{field} {text!r}: {message}") from None


def _read(kind: str, rest: str, field: str) -> Backoff:
    from perdure.core.shapes import Constant, Schedule

    if kind not in (*_RANGES, "const", "list") or not rest.strip():
        written = f"{kind}:{rest}" if rest else kind
        raise ConfigError(f"{field} must be one of {_FORMS}, got {written!r}")
    parts, jitter = _split(rest, field)
    if jitter.get("jitter") == "decorrelated":
        if kind != "exp" or "*" in rest:
            raise ConfigError(
                f"{field} decorrelated goes with exp:base..cap and no factor, got {f'{kind}:{rest}'!r}"
            )
        kind, jitter = "decorrelated", {}
    if kind == "list":
        return Schedule([seconds(part, field=f"{field} delay") for part in parts], **jitter)
    if len(parts) > 1:
        raise ConfigError(f"{field} jitter must be {_jitter_words()}, got {parts[1]!r}")
    if kind == "const":
        return Constant(seconds(parts[0], field=f"{field} delay"), **jitter)
    return _ranged(kind, parts[0], jitter, field)


def _ranged(kind: str, text: str, jitter: dict[str, Any], field: str) -> Backoff:
    from perdure.core import backoff, shapes

    span, star, factor = text.partition("*")
    low, dots, high = span.partition("..")
    name = _RANGES[kind]
    if not dots:
        raise ConfigError(f"{field} {kind} must be a range {name}..cap, such as {kind}:1s..30s, got {text!r}")
    fields: dict[str, Any] = {
        name: seconds(low, field=f"{field} {name}"),
        "cap": seconds(high, field=f"{field} cap"),
    }
    if star:
        if kind != "exp":
            raise ConfigError(f"{field} {kind} has no factor, got {text!r}")
        fields["factor"] = _number(factor, f"{field} factor must be a number >= 1")
    if kind == "decorrelated":
        if jitter:
            raise ConfigError(f"{field} decorrelated is a jitter of its own and takes no other, got {text!r}")
        return shapes.Decorrelated(**fields)
    if kind == "exp":
        return backoff.Exponential(**fields, **jitter)
    return shapes.Linear(**fields, **jitter) if kind == "linear" else shapes.Fibonacci(**fields, **jitter)


def _split(rest: str, field: str) -> tuple[list[str], dict[str, Any]]:
    """The parts between commas, and the jitter if the last part is one."""
    parts = [part.strip() for part in rest.split(",")]
    jitter = _jitter(parts[-1], field) if len(parts) > 1 else None
    return (parts, {}) if jitter is None else (parts[:-1], {"jitter": jitter})


def _jitter(text: str, field: str) -> str | float | None:
    """The jitter that a last part names; None where it is something else (a delay of a list)."""
    name = text.lower().removesuffix("-jitter")
    if name in (*_JITTERS, "decorrelated"):
        return name
    if not name.endswith("%"):
        return None
    share = _number(name[:-1], f"{field} jitter must be {_jitter_words()}") / 100
    if not 0 < share <= 1:
        raise ConfigError(f"{field} jitter must be {_jitter_words()}, got {text!r}")
    return share


def _jitter_words() -> str:
    return f"one of {', '.join(_JITTERS)}, decorrelated or a share from 1% to 100%"


def _number(text: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{rule}, got {text!r}") from None
