"""The grammar of delays: numbers, HTTP dates, moments as in RFC 3339, and durations as Go writes them.

ASCII only, as `int()` and `float()` take more: other digits, "_" and "inf". What is malformed is None, never an
error. Every parse is linear in the length of the text, and what is longer than any sender means is malformed.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST", "bounded", "duration", "http_date", "members", "moment", "number", "plain"]

LONGEST = 1e10
"""Seconds; longer delays count as this one, which is above any cap."""

_TOO_LONG = 65_536  # characters

_NUMBER = re.compile(r"([0-9]+)(\.[0-9]+)?")
_INTEGER_DIGITS = 10
_MOST_DIGITS = 16  # what a float holds
_FRACTION_DIGITS = 10  # with the point

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
# A date contains a comma, so a list is split only between dates. Both patterns take a millisecond to compile, which
# is left to re's cache: most delays are numbers.
_MEMBER = rf"[ \t]*{_DATE}(?=[ \t]*(?:,|$))|[^,]+"
_LONGEST_DATE = 40  # characters; a Wednesday in RFC 850 has 33
_WORD = re.compile(r"[A-Za-z]+|[0-9]+")

_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}):([0-9]{2})"
    r"(?:(\.[0-9]{1,6})[0-9]{0,250})?(?:([Zz]| UTC)|([+-][0-9]{2}:[0-9]{2}))"
)

_LONGEST_DURATION = 64  # characters; Go's own longest has 25
_PART = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,16})?)(ns|us|µs|μs|ms|s|m|h|d)")  # either sign of micro
_MICRO = 1e-6
_UNITS = {
    "ns": 1e-9,
    "us": _MICRO,
    "µs": _MICRO,
    "μs": _MICRO,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
}


def bounded(delay: float) -> float:
    """Give `delay` within 0 and `LONGEST`."""
    return min(max(delay, 0.0), LONGEST)


def members(value: str) -> Iterator[str]:
    """Give the members of a list that is separated by commas, without the blanks around them."""
    if len(value) > _TOO_LONG:
        return
    value = value.strip(" \t\r\n")
    if "," in value:
        yield from (match.group().strip(" \t\r\n") for match in re.finditer(_MEMBER, value, re.IGNORECASE))
    else:
        yield value


def plain(text: str) -> float | None:
    """Give a number of seconds such as "60" or "1.5", at most `LONGEST`."""
    found = number(text, _INTEGER_DIGITS)
    return None if found is None else bounded(found)


def number(text: str, digits: int = _MOST_DIGITS) -> float | None:
    """Give a number >= 0 as it stands; one with more `digits` is `LONGEST`, or larger."""
    match = None if len(text) > _TOO_LONG else _NUMBER.fullmatch(text)
    if match is None:
        return None
    whole = match[1].lstrip("0")
    if len(whole) > digits:  # int() refuses thousands of digits, float() makes them inf
        return max(LONGEST, 10.0**digits)
    return float(f"{whole or '0'}{(match[2] or '')[:_FRACTION_DIGITS]}")


def duration(text: str) -> float | None:
    """Give the seconds of "1m30s", "2m30.5s", "17ms" or "36.429760048s"; no sign, no blanks, a unit each time."""
    if not 2 <= len(text) <= _LONGEST_DURATION:
        return None
    total, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            return None
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return bounded(round(total, 9)) if end == len(text) else None  # 0.1 + 0.2 is no reason for a 17th digit


def moment(text: str) -> float | None:
    """Give the epoch seconds of a moment as in RFC 3339, such as "2026-01-27T12:00:30Z"."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    date, minute, second, fraction, utc, zone = match.groups("")
    second = min(second, "59") if second <= "60" else second  # a leap second
    try:
        at = datetime.fromisoformat(f"{date}T{minute}:{second}{fraction}{'+00:00' if utc else zone}")
        return at.timestamp()
    except (ValueError, OverflowError):  # February 30; a zone of 99 hours; the year 1 east of Greenwich
        return None


def http_date(text: str, now: float) -> float | None:
    """Give the epoch seconds of an HTTP date in any of its three forms; `now` tells the century of two digits."""
    if len(text) > _LONGEST_DATE or re.fullmatch(_DATE, text, re.IGNORECASE) is None:
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
