"""Reset headers of rate limits: when the bucket that is used up has room again.

A bucket is told by its name without the words "remaining" and "reset", so `x-ratelimit-reset-tokens` goes with
`x-ratelimit-remaining-tokens` and `anthropic-ratelimit-tokens-reset` with `anthropic-ratelimit-tokens-remaining`.
What resets is written in many ways: `_until` has the rules.
"""

from __future__ import annotations

import re

from perdure.faults.delays import bounded, duration, http_date, members, moment, number
from perdure.faults.headers import is_rate_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bucket_hint"]

_DAY = 86_400.0
_EPOCH, _EPOCH_MS = 1e9, 1e12  # numbers above are moments
_FIELD = "ratelimit"  # of the drafts since 07, one field for all buckets
_LONGEST_FIELD = 8192  # characters
_GITHUB = "x-github-request-id"

# Who writes these is known, so a wait of more than a day is meant.
_KNOWN = {"ratelimit", "x-rate-limit", "x-ratelimit-requests", "x-ratelimit-tokens"}
_KNOWN_PREFIX = "anthropic-ratelimit-"
_PARAMETERS = {"r": "remaining", "remaining": "remaining", "t": "reset", "reset": "reset"}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


class _Bucket:
    """What an answer says of one bucket: `left` is None where it does not say how much."""

    __slots__ = ("_is_final", "delay", "left", "source")

    def __init__(self) -> None:
        self.left: float | None = None
        self.delay: float | None = None
        self.source = ""
        self._is_final = False

    def set(self, delay: float | None, source: str, *, is_final: bool = False) -> None:
        """Take a delay; how long it is to the reset is better than when that is, as no clock is in it."""
        if delay is not None and not self._is_final:
            self.delay, self.source, self._is_final = delay, source, is_final


def bucket_hint(
    found: dict[str, list[str]], now: float, base: float, *, is_limited: bool
) -> tuple[float, str] | None:
    """Give the delay until every bucket that is used up has room again, and the field that says so.

    `base` is when the answer was made. `is_limited`: the status says that some bucket is used up, so where none
    says so itself, those count that do not say how much is left, and of several the later.
    """
    buckets = [*_named(found, now, base), *_structured(found.get(_FIELD, ()))]
    timed = [(bucket.delay, bucket.source, bucket.left) for bucket in buckets if bucket.delay is not None]
    empty = [(delay, source) for delay, source, left in timed if left is not None and left <= 0]
    if not empty and is_limited:
        empty = [(delay, source) for delay, source, left in timed if left is None]
    return max(empty, default=None)


def _named(found: dict[str, list[str]], now: float, base: float) -> Iterable[_Bucket]:
    buckets: dict[str, _Bucket] = {}
    for name, values in found.items():
        key, role = _told(name)
        if role is None:
            continue
        bucket = buckets.setdefault(key, _Bucket())
        if role == "remaining":
            bucket.left = min(_amounts(values), default=None)
        elif role == "after":
            delays = [bounded(amount) for amount in _amounts(values) if amount >= 0]
            bucket.set(max(delays, default=None), name, is_final=True)
        else:
            is_known = key in _KNOWN or key.startswith(_KNOWN_PREFIX) or _GITHUB in found
            bucket.set(_longest(values, now, base, is_known=is_known), name)
    return buckets.values()


def _told(name: str) -> tuple[str, str | None]:
    """The bucket that a field is about, and what it says: "remaining", "reset", "after" (how long to the reset)."""
    if not is_rate_field(name):
        return name, None
    words = name.split("-")
    roles = [word for word in ("remaining", "reset") if words.count(word) == 1]
    if len(roles) != 1:
        return name, None
    (role,) = roles
    at = words.index(role)
    is_after = role == "reset" and words[at + 1 : at + 2] == ["after"]
    rest = words[:at] + words[at + (2 if is_after else 1) :]
    return "-".join(rest), "after" if is_after else role


def _longest(values: list[str], now: float, base: float, *, is_known: bool) -> float | None:
    delays = [_until(member, now, base) for member in _members(values)]
    return max(
        (bounded(one) for one in delays if one is not None and (is_known or 0 <= one <= _DAY)), default=None
    )


def _until(text: str, now: float, base: float) -> float | None:
    """Give the seconds from `base` on, which are < 0 for a moment that is over.

    With unit letters it is a duration, and a date is a date. A number above 10^12 is in epoch milliseconds, one
    above 10^9 in epoch seconds, and any other in seconds from now.
    """
    delay = duration(text)
    if delay is not None:
        return delay
    amount = number(text)
    if amount is None:
        at = moment(text)
        at = http_date(text, now) if at is None else at
        return None if at is None else at - base
    if amount > _EPOCH_MS:
        return amount / 1000 - base
    return amount - base if amount > _EPOCH else amount


def _amounts(values: Iterable[str]) -> Iterator[float]:
    for member in _members(values):
        if len(member) <= 32 and _NUMBER.fullmatch(member):
            yield float(member)


def _members(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        if len(value) <= _LONGEST_FIELD:
            yield from members(value)


# RateLimit: "default";r=0;t=12  or, in drafts 07 and 08,  limit=100, remaining=0, reset=42


def _structured(values: Iterable[str]) -> Iterator[_Bucket]:
    """The buckets of a structured field; `t` is always in seconds, never a moment."""
    for value in values:
        if len(value) > _LONGEST_FIELD:
            continue
        shared = _Bucket()
        for item in _split(value, ","):
            name, *parameters = [part.strip(" \t") for part in _split(item, ";")]
            bucket = _Bucket() if parameters else shared
            for parameter in (name, *parameters):
                _set(bucket, parameter)
            if parameters:
                yield bucket
        yield shared


def _set(bucket: _Bucket, parameter: str) -> None:
    key, _, text = parameter.partition("=")
    role = _PARAMETERS.get(key.strip(" \t").lower())
    amount = next(_amounts([text.strip(" \t")]), None)
    if role == "remaining" and amount is not None:
        bucket.left = amount
    elif role == "reset" and amount is not None and amount >= 0:
        bucket.set(bounded(amount), _FIELD)


def _split(text: str, separator: str) -> Iterator[str]:
    """Split outside quotes, in one pass."""
    start, is_quoted, is_escaped = 0, False, False
    for at, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif is_quoted and character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == separator and not is_quoted:
            yield text[start:at]
            start = at + 1
    yield text[start:]
