"""Delays in sentences for people. Nothing in perdure reads these by itself, as they change without notice."""

from __future__ import annotations

import re

from perdure.faults.delays import bounded, moment

__all__ = ["delay_in_text"]

_LONGEST_TEXT = 8192  # characters
_LONGEST_AMOUNT = 80
_NEAR = 48  # so far before the amount stands what it is about
_TOPIC = re.compile(r"retry|try again|try your request|reset|wait|available", re.IGNORECASE)
_LEAD = re.compile(r"\b(?:after|in|for|wait|at)[ :]{1,2}(?:about |approximately )?~?(?=[0-9])", re.IGNORECASE)
_PART = re.compile(
    r"(?:, | and | )?([0-9]{1,10}(?:\.[0-9]{1,9})?) ?"
    r"(milliseconds?|millis|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![A-Za-z])",
    re.IGNORECASE,
)
_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:\.[0-9]{1,9})?(?:Z| UTC|[+-][0-9]{2}:[0-9]{2})")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def delay_in_text(text: object, now: float | None = None) -> float | None:
    """Give the delay in seconds that a sentence for people asks for, or None.

    "Retry the request after 10 seconds", "Please try again in 1m30s", "resets in ~10s", "retry after
    2026-11-30 13:45:03 UTC". Meant for a rule of your own, for one service whose sentences you know: the
    classifier looks at no text. A number needs a unit. The first that fits counts, in the first 8,192
    characters. `now` is the wall time in epoch seconds (default: the clock). Finite, never negative, at most
    1e10. Never raises. Reads only; safe from any thread or task.
    """
    if not isinstance(text, str):
        return None
    text = text[:_LONGEST_TEXT]
    for lead in _LEAD.finditer(text):
        if _TOPIC.search(text, max(0, lead.start() - _NEAR), lead.end()):
            amount = text[lead.end() : lead.end() + _LONGEST_AMOUNT]
            delay = _until(amount, now) if _AT.match(amount) else _sum(amount)
            if delay is not None:
                return delay
    return None


def _sum(text: str) -> float | None:
    """Add up "1m30s", "10 seconds", "1 minute and 30 seconds"."""
    total, end = None, 0
    while (part := _PART.match(text, end)) is not None:
        unit = part[2].lower()
        size = 0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]]
        total = (total or 0.0) + float(part[1]) * size
        end = part.end()
    return None if total is None else bounded(round(total, 9))


def _until(text: str, now: float | None) -> float | None:
    match = _AT.match(text)
    at = None if match is None else moment(match[0])
    if at is None:
        return None
    from perdure.faults.hints import time_or_clock

    return bounded(at - time_or_clock(now))
