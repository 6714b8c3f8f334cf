"""Delays that servers ask for, by precedence.

Fields in milliseconds and the body come before `Retry-After`, and that before the reset headers of a rate limit
that is used up. A value that is wrong is ignored, never an error. Every parse is linear in the length of the value.
"""

from __future__ import annotations

import time

from perdure.faults.delays import LONGEST, bounded, duration, http_date, members, plain
from perdure.faults.documents import load
from perdure.faults.headers import is_rate_field, read_where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LONGEST", "asked_delay", "found_hint", "retry_after", "skew_of", "time_or_clock"]

wall_clock: Callable[[], float] = time.time
"""The one place where this package reads a clock: dates are wall time."""

_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "grpc-retry-pushback-ms")
_FIELDS = frozenset({*_MILLISECONDS, "retry-after", "date", "age"})
_GITHUB = "x-github-request-id"

_EPOCH_FROM = 1e9
_YEAR = 366 * 86_400.0
_SKEW = 300.0
_LATEST = 1e15  # epoch seconds, of 30 million years

# Statuses under which a delay means "then again": the answers that are worth another attempt, and redirects.
_NEVER_AGAIN = (501, 505, 506, 508, 510, 511, 525, 526, 540, 561)
_ASKING = frozenset({408, 413, 420, 423, 425, 429, 460, *range(500, 600)} - {*_NEVER_AGAIN})
_LIMITED = (420, 429)
# Where a bucket counts: elsewhere the request may have been the last that it had room for, and failed for a reason
# of its own. Under 503 a delay even says that nothing was done, which a bucket does not.
_BUCKETS = (None, 403, *_LIMITED)
_GITHUB_AT_LEAST = 60.0


def retry_after(headers: object, now: float | None = None) -> float | None:
    """Give the delay in seconds that the headers of a response ask for, or None to use the computed backoff.

    `headers` is a mapping in any case or a list of pairs. `now` is the wall time in epoch seconds
    (default: the clock); it is not used for a date when the response has a `Date` of its own. Millisecond
    fields of vendors come before `Retry-After`; of several valid values the largest counts. Zero, a date
    that is over and everything malformed give None. The result is finite, > 0 and <= 1e10. Never raises.
    Reads only; safe from any thread or task.
    """
    found = read_where(headers, _FIELDS.__contains__)
    hint = _milliseconds(found) or _retry_after(found, time_or_clock(now))
    return (hint[0] or None) if hint is not None else None


def asked_delay(
    headers: object, now: float | None = None, *, status: int | None = None, body: object = None
) -> float | None:
    """Give the delay that a response asks for; 0.0 when it asks in a valid way for no more delay, else None.

    As `retry_after`, and reads the body (bytes, text or parsed JSON) and the reset headers of exhausted rate
    limits too. With a `status`, None for one under which a delay has no such meaning; reset headers count
    under 420, 429, GitHub's 403, and without a status.
    """
    hint = found_hint(headers, now, status=status, body=body)
    return None if hint is None else hint[0]


def found_hint(
    headers: object, now: float | None = None, *, status: int | None = None, body: object = None
) -> tuple[float, str] | None:
    """As `asked_delay`, with the name of the field that asks."""
    document = load(body)
    if status is not None and not _has_meaning(status, headers, document):
        return None
    found = read_where(headers, _is_read)
    now = time_or_clock(now)
    return (
        _milliseconds(found)
        or _in_body(document, found, now)
        or _retry_after(found, now)
        or _reset(found, now, status)
        or _of_github(found, status)
    )


def skew_of(headers: object, now: float | None = None) -> bool | None:
    """Whether the clock of the server and that of this machine are more than 300 s apart; None without a `Date`.

    `now` is the wall time in epoch seconds (default: the clock). An answer that a cache replays has an old
    `Date`; its `Age` is allowed for. Never raises. Reads only; safe from any thread or task.
    """
    found = read_where(headers, _FIELDS.__contains__)
    now = time_or_clock(now)
    sent = _sent(found, now)
    return None if sent is None else abs(now - sent - max(_ages(found), default=0.0)) > _SKEW


def time_or_clock(now: float | None) -> float:
    """Give `now`, or the time by the clock where it is none."""
    return now if isinstance(now, (int, float)) and -_LATEST < now < _LATEST else wall_clock()


def _has_meaning(status: int, headers: object, document: object) -> bool:
    if status == 403:
        from perdure.faults.said import is_github_limit

        return is_github_limit(headers, document)
    return status in _ASKING or (300 <= status < 400 and status != 304)


def _is_read(name: str) -> bool:
    return name in _FIELDS or name == _GITHUB or is_rate_field(name)


def _milliseconds(found: dict[str, list[str]]) -> tuple[float, str] | None:
    for name in _MILLISECONDS:
        delays = [delay for value in found.get(name, ()) if (delay := plain(value.strip(" \t"))) is not None]
        if delays:
            return max(delays) / 1000, name
    return None


def _retry_after(found: dict[str, list[str]], now: float) -> tuple[float, str] | None:
    delays = [
        delay
        for value in found.get("retry-after", ())
        for member in members(value)
        if (delay := _delay(member, found, now)) is not None
    ]
    if not delays:
        return None
    longest = max(delays)
    return (0.0 if _is_replayed(found, longest, now) else longest), "retry-after"


def _delay(text: str, found: dict[str, list[str]], now: float) -> float | None:
    delay = plain(text)
    if delay is None:
        at = http_date(text, now)
        return duration(text) if at is None else bounded(at - _base(found, now))  # GitHub has sent "1m0s"
    # Nobody asks for 31 years: it is a moment.
    is_moment = delay > _EPOCH_FROM and abs(delay - _base(found, now)) < _YEAR
    return bounded(delay - _base(found, now)) if is_moment else delay


def _base(found: dict[str, list[str]], now: float) -> float:
    """When the answer was made."""
    sent = _sent(found, now)
    # Dates have no fraction: measured from the middle of a second, 60 s would come out as 59.5.
    return now // 1 if sent is None else sent


def _sent(found: dict[str, list[str]], now: float) -> float | None:
    dates = (http_date(value.strip(" \t"), now) for value in found.get("date", ()))
    return next((date for date in dates if date is not None), None)


def _ages(found: dict[str, list[str]]) -> list[float]:
    return [age for value in found.get("age", ()) if (age := plain(value.strip(" \t"))) is not None]


def _is_replayed(found: dict[str, list[str]], delay: float, now: float) -> bool:
    """Whether a cache replays an old answer whose delay is over; only a cache sends `Age`."""
    ages = _ages(found)
    if not ages:
        return False
    sent = _sent(found, now)
    return max(ages) >= delay or (sent is not None and now - sent >= delay)


def _in_body(document: object, found: dict[str, list[str]], now: float) -> tuple[float, str] | None:
    if document is None:
        return None
    from perdure.faults.asked import body_hint

    hint = body_hint(document)
    if hint is None or hint[1] != "retry_after":
        return hint
    delay, source = hint
    # Old versions of Discord's API have milliseconds here: the header then says a thousandth of it.
    other = _retry_after(found, now)
    is_milliseconds = other is not None and other[0] > 0 and 500 <= delay / other[0] <= 2000
    return (delay / 1000 if is_milliseconds else delay), source


def _reset(found: dict[str, list[str]], now: float, status: int | None) -> tuple[float, str] | None:
    if status not in _BUCKETS or found.keys() <= _FIELDS:
        return None
    from perdure.faults.buckets import bucket_hint

    hint = bucket_hint(found, now, _base(found, now), is_limited=status in _LIMITED)
    return (0.0, hint[1]) if hint is not None and _is_replayed(found, hint[0], now) else hint


def _of_github(found: dict[str, list[str]], status: int | None) -> tuple[float, str] | None:
    """GitHub asks for a minute at least where a secondary limit is met and nothing says how long.

    `_has_meaning` has looked at a 403 already. Where nothing remains it is the primary limit.
    """
    is_secondary = status in {403, 429} and _GITHUB in found and found.get("x-ratelimit-remaining") != ["0"]
    return (_GITHUB_AT_LEAST, "github") if is_secondary else None
