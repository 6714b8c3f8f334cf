"""What people write on the command line, read into values; every refusal names field, range and value.

Plain functions ``read(text, field) -> value`` that raise ConfigError: no click here, so that a test and a
table of options need none.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.durations import seconds
from perdure.errors import ConfigError
from perdure.policies import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

__all__ = [
    "NO_CODES",
    "Codes",
    "read_attempts",
    "read_codes",
    "read_count",
    "read_deadline",
    "read_duration",
    "read_duration_or_forever",
    "read_exit_map",
    "read_name",
    "read_pattern",
    "read_size",
    "read_some_time",
]

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

ENDINGS = ("exhausted", "deadline", "timeout", "stopped", "unreplayable", "refused")
"""Names of endings that ``--map-exit`` may give another exit code."""


class Codes(NamedTuple):
    """A set of exit codes, and how it was written, for messages. Immutable."""

    text: str
    members: frozenset[int]


NO_CODES = Codes("", frozenset())


def read_attempts(text: str, field: str) -> int | None:
    """A number of attempts in all; None for "unlimited"."""
    if text.strip().lower() == "unlimited":
        return None
    number = _whole(text)
    if number is None or number < 1:
        raise ConfigError(f'{field} must be a whole number >= 1 or "unlimited", got {text!r}')
    return number


def read_count(text: str, field: str) -> int:
    """A whole number of at least 1."""
    number = _whole(text)
    if number is None or number < 1:
        raise ConfigError(f"{field} must be a whole number >= 1, got {text!r}")
    return number


def read_duration(text: str, field: str) -> float:
    """A duration in seconds, 0 or more."""
    return seconds(text, field=field)


def read_duration_or_forever(text: str, field: str) -> float:
    """A duration in seconds, 0 or more, or "forever"."""
    return FOREVER if text.strip().lower() == "forever" else seconds(text, field=field)


def read_some_time(text: str, field: str) -> float:
    """A duration in seconds, more than 0."""
    value = seconds(text, field=field)
    if not value:
        raise ConfigError(f"{field} must be a duration of more than 0, got {text!r}")
    return value


def read_deadline(text: str, field: str) -> float:
    """A duration of more than 0 in seconds, or "forever"."""
    return FOREVER if text.strip().lower() == "forever" else read_some_time(text, field)


def read_name(text: str, field: str) -> str:
    """A name of at least one character, whatever it is."""
    if not text:
        raise ConfigError(f"{field} must be a name of at least one character, got {text!r}")
    return text


def read_size(text: str, field: str) -> int:
    """A number of bytes: 4096, "64k", "256MiB", "1G" (powers of 1024)."""
    plain = text.strip().lower().removesuffix("ib").removesuffix("b")
    digits = plain.rstrip("kmg")
    number, unit = _whole(digits), _UNITS.get(plain[len(digits) :])
    if number is None or number < 0 or unit is None:
        raise ConfigError(
            f'{field} must be a size of 0 bytes or more, such as 4096, "64k" or "1GiB", got {text!r}'
        )
    return number * unit


def read_codes(text: str, field: str) -> Codes:
    """Exit codes and ranges of them: "1,75,100-120"."""
    members: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = _whole(first), _whole(last if dash else first)
        if low is None or high is None or not 1 <= low <= high <= 255:
            raise ConfigError(
                f"{field} must be exit codes from 1 to 255 or ranges, such as 1,75,100-120, got {part!r}"
                + (f" in {text!r}" if part != text else "")
            )
        members.update(range(low, high + 1))
    return Codes(text, frozenset(members))


def read_pattern(text: str, field: str) -> re.Pattern[bytes]:
    """A regular expression for output; it sees bytes, and ``^`` and ``$`` are the ends of lines."""
    import re

    try:
        return re.compile(text.encode("utf-8", "surrogateescape"), re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"{field} must be a regular expression, got {text!r}: {error}") from None


def read_exit_map(texts: Iterable[str], field: str) -> dict[str, int | None]:
    """Endings and their exit codes: "exhausted=75,timeout=4"; "deadline=child" (None): its own."""
    mapped: dict[str, int | None] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        code = _whole(value)
        fine = value == "child" or (code is not None and 0 <= code <= 255)
        if name not in ENDINGS or not equals or not fine:
            raise ConfigError(
                f"{field} must be NAME=CODE with NAME one of {', '.join(ENDINGS)} and CODE from 0 to 255 "
                f'or "child", got {part!r}'
            )
        mapped[name] = code
    return mapped


def _whole(text: str) -> int | None:
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) <= 18 else None
