"""Durations at the edge: inside perdure every duration is a number of seconds as a float."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["human", "seconds"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: float | str | timedelta, *, field: str = "duration") -> float:
    """Read a duration as seconds: 2, 0.5, "250ms", "2s", "1m30s", "1.5h" or a timedelta.

    A bare number is seconds. ``field`` names the option in the error.

    Raises ConfigError for anything that is not a finite duration of at least 0. Pure: safe anywhere.
    """
    if isinstance(value, bool):
        raise _refuse(field, value)
    if isinstance(value, (int, float)):
        number = _number(value)
    elif isinstance(value, str):
        number = _text(value.strip().lower())
    else:
        number = _number(value.total_seconds()) if type(value).__name__ == "timedelta" else math.nan
    if not 0 <= number < math.inf:  # also refuses NaN
        raise _refuse(field, value)
    return number


def human(value: float) -> str:
    """Write seconds for people: "250 ms", "1.5 s", "2 min 30 s", "3 h 5 min"."""
    if value < 0.9995:
        return f"{value * 1000:.3g} ms" if value else "0 s"
    if value < 60:
        return f"{value:.3g} s"
    if value == math.inf:
        return "for ever"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _text(text: str) -> float:
    """The sum of the parts of "1m30s"; NaN where the text is not of that form."""
    number = _plain(text)
    if not math.isnan(number):
        return number
    total, rest = 0.0, text
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        unit_length = len(rest[digits:]) - len(rest[digits:].lstrip("abcdefghijklmnopqrstuvwxyz"))
        unit = _UNITS.get(rest[digits : digits + unit_length])
        if unit is None:
            return math.nan
        total += _plain(rest[:digits]) * unit
        rest = rest[digits + unit_length :].lstrip()
    return total if text else math.nan


def _plain(text: str) -> float:
    if not text or text.strip("0123456789.") or not text.isascii():
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def _refuse(field: str, value: object) -> Exception:
    from perdure.errors import ConfigError

    return ConfigError(
        f'{field} must be a duration of 0 or more, such as 2, 0.5, "250ms" or "1m30s", got {value!r}'
    )
