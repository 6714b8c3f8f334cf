"""Delays that servers ask for: `Retry-After` in seconds or as a date, and its vendor forms in milliseconds.

A value that is wrong is ignored, never an error. Every parse is linear in the length of the value.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime

from perdure.faults.headers import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LONGEST", "asked_delay", "retry_after"]

LONGEST = 1e10
"""Seconds; longer delays count as this one, which is above any cap."""

wall_clock: Callable[[], float] = time.time
"""The one place where this package reads a clock: dates are wall time."""

_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after")
_TOO_LONG = 65_536  # characters; no sender means this

_SECONDS = re.compile(
    r"([0-9]+)(\.[0-9]+)?"
)  # ASCII only: int() and float() take other digits, "_" and "inf"
_INTEGER_DIGITS = 10
_FRACTION_DIGITS = 10

_EPOCH_FROM = 1e9
_YEAR = 366 * 86_400.0

# RFC 9110 5.6.7: IMF-fixdate, RFC 850, asctime. Zones other than GMT are non-conforming; 0000 means the same.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)"
_GMT = "(?:GMT|UTC|[+-]0000)"
_DATE = (
    f"(?:{_DAY}, [0-9]{{2}} {_MONTH} [0-9]{{4}} {_TIME} {_GMT}"
    f"|{_LONG_DAY}, [0-9]{{2}}-{_MONTH}-[0-9]{{2}} {_TIME} {_GMT}"
    f"|{_DAY} {_MONTH} (?:[0-9]| )[0-9] {_TIME} [0-9]{{4}})"
)
_DATE_ONLY = re.compile(_DATE, re.IGNORECASE)
# A date contains a comma, so a list is split only between dates.
_MEMBER = re.compile(rf"[ \t]*{_DATE}(?=[ \t]*(?:,|$))|[^,]+", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+|[0-9]+")


def retry_after(headers: object, now: float | None = None) -> float | None:
    """Give the delay in seconds that a response asks for, or None to use the computed backoff.

    `headers` is a mapping in any case or a list of pairs. `now` is the wall time in epoch seconds
    (default: the clock); it is not used for a date when the response has a `Date` of its own. Millisecond
    fields of vendors come before `Retry-After`; of several valid values the largest counts. Zero, a date
    that is over and everything malformed give None. The result is finite, > 0 and <= 1e10. Never raises.
    Reads only; safe from any thread or task.
    """
    return asked_delay(headers, now) or None


def asked_delay(headers: object, now: float | None = None) -> float | None:
    """As `retry_after`, but 0.0 when the response asks in a valid way for no more delay."""
    found = read(headers, *_MILLISECONDS, "retry-after", "date", "age")
    for name in _MILLISECONDS:
        delays = [delay for value in found.get(name, ()) if (delay := _plain(value.strip(" \t"))) is not None]
        if delays:
            return max(delays) / 1000
    if "retry-after" not in found:
        return None
    return _retry_after(found, wall_clock() if now is None or not math.isfinite(now) else now)


def _retry_after(found: dict[str, list[str]], now: float) -> float | None:
    dates = (_instant(value.strip(" \t"), now) for value in found.get("date", ()))
    sent = next((date for date in dates if date is not None), None)
    delays = [
        delay
        for value in found["retry-after"]
        for member in _members(value)
        if (delay := _delay(member, now, sent)) is not None
    ]
    if not delays:
        return None
    longest = max(delays)
    return 0.0 if _replayed(found, longest, sent, now) else longest


def _members(value: str) -> Iterator[str]:
    if len(value) <= _TOO_LONG:
        yield from (match.group().strip(" \t\r\n") for match in _MEMBER.finditer(value.strip(" \t\r\n")))


def _delay(text: str, now: float, sent: float | None) -> float | None:
    # Dates have no fraction: measured from the middle of a second, 60 s would come out as 59.5.
    base = math.floor(now) if sent is None else sent
    delay = _plain(text)
    if delay is None:
        at = _instant(text, now)
        return None if at is None else _bounded(at - base)
    if delay > _EPOCH_FROM and abs(delay - base) < _YEAR:  # nobody asks for 31 years: it is an instant
        return _bounded(delay - base)
    return delay


def _plain(text: str) -> float | None:
    match = _SECONDS.fullmatch(text)
    if match is None:
        return None
    whole = match[1].lstrip("0")
    if len(whole) > _INTEGER_DIGITS:  # int() refuses thousands of digits, float() makes them inf
        return LONGEST
    return _bounded(float(f"{whole or '0'}{(match[2] or '')[:_FRACTION_DIGITS]}"))


def _bounded(delay: float) -> float:
    return min(max(delay, 0.0), LONGEST)


def _replayed(found: dict[str, list[str]], delay: float, sent: float | None, now: float) -> bool:
    """Whether a cache replays an old answer whose delay is over; only a cache sends `Age`."""
    ages = [age for value in found.get("age", ()) if (age := _plain(value.strip(" \t"))) is not None]
    if not ages:
        return False
    return max(ages) >= delay or (sent is not None and now - sent >= delay)


def _instant(text: str, now: float) -> float | None:
    """Give the epoch seconds of an HTTP date, else None."""
    if _DATE_ONLY.fullmatch(text) is None:
        return None
    words = _WORD.findall(text)
    if words[1].isdigit():
        _, day, month, year, hour, minute, second = words[:7]
    else:
        _, month, day, hour, minute, second, year = words
    try:
        at = datetime(
            _full_year(year, now),
            _MONTHS.index(month.lower()) + 1,
            int(day),
            int(hour),
            int(minute),
            min(int(second), 59),  # a leap second
            tzinfo=UTC,
        )
    except ValueError:  # February 30
        return None
    return at.timestamp()


def _full_year(year: str, now: float) -> int:
    """RFC 9110 5.6.7: two digits that seem more than 50 years ahead mean the century before."""
    if len(year) > 2:
        return int(year)
    try:
        this_year = time.gmtime(now).tm_year
    except (OverflowError, OSError, ValueError):
        this_year = 2000
    full = this_year - this_year % 100 + int(year)
    return full - 100 if full > this_year + 50 else full
