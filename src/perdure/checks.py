"""Checks of what users write, each with one clear error: the field, its range, the value."""

from __future__ import annotations

from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["check_callable", "check_flag", "check_seconds", "check_share", "check_whole", "refuse"]


def refuse(field: str, says: str, value: object) -> ConfigError:
    """The error for a field; the caller raises it."""
    return ConfigError(f"{field} {says}, got {value!r}")


def is_number(value: object) -> bool:
    """Whether it is a finite number, and no flag."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return float("-inf") < float(value) < float("inf")
    except OverflowError:  # an int of hundreds of digits
        return False


def check_seconds(
    field: str,
    value: Any,
    *,
    above: float | None = None,
    optional: bool = False,
    unit: str = "number of seconds",
) -> None:
    """A finite number >= 0, or greater than ``above``; None where ``optional``."""
    if value is None and optional:
        return
    least = f"> {above:g}" if above is not None else ">= 0"
    number: Any = value
    if not is_number(value) or not (number > above if above is not None else number >= 0):
        raise refuse(field, f"must be a finite {unit} {least}{', or None' if optional else ''}", value)


def check_share(field: str, value: Any, *, optional: bool = False) -> None:
    """A share in (0, 1]; None where ``optional``."""
    if value is None and optional:
        return
    number: Any = value
    if not is_number(value) or not 0 < number <= 1:
        raise refuse(field, f"must be a share in (0, 1]{', or None' if optional else ''}", value)


def check_whole(field: str, value: Any, *, least: int, optional: bool = False) -> None:
    """A whole number of at least ``least``; None where ``optional``."""
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise refuse(field, f"must be a whole number >= {least}{', or None' if optional else ''}", value)


def check_flag(field: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise refuse(field, "must be True or False", value)


def check_callable(field: str, value: Any) -> None:
    """Something that can be called."""
    if not callable(value):
        raise refuse(field, "must be a callable", value)
