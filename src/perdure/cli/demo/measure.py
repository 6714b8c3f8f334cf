"""Figures from what was recorded: pure arithmetic over calls, attempts and the server's ledger."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.cli.demo.traffic import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.cli.demo.process import Seen
    from perdure.cli.demo.script import Script
    from perdure.cli.demo.traffic import Call

PEAK_WINDOW: Final = 0.1
_PERMANENT: Final = (404, 422)
_AFTER: Final = 1.0

Curve = list[tuple[float, float | None]]


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def peak(times: Iterable[float], begin: float, end: float, window: float = PEAK_WINDOW) -> int:
    """Return the most events that fall into any `window` seconds starting between `begin` and `end`."""
    inside = sorted(at for at in times if begin <= at <= end)
    return max((bisect_left(inside, at + window) - place for place, at in enumerate(inside)), default=0)


def share(part: int, whole: int) -> float | None:
    """Return part / whole, or None when there is nothing to divide."""
    return part / whole if whole else None


def finished(calls: Iterable[Call]) -> list[Call]:
    """Return the calls that have ended; the others belong in no figure yet."""
    return [call for call in calls if call.ended is not None]


def success_rate(calls: Iterable[Call]) -> float | None:
    """Return the share of successes among ended calls that could succeed at all."""
    possible = [call for call in finished(calls) if call.wrong is None]
    return share(sum(call.ok for call in possible), len(possible))


def sent_at(calls: Iterable[Call]) -> list[float]:
    """Return when each attempt was sent, in order."""
    return sorted(attempt.started for call in calls for attempt in call.attempts)


def success_curve(calls: Iterable[Call], seconds: float, width: float) -> Curve:
    """Return the success rate of the calls due in each `width` seconds, as (middle, rate or None)."""
    bins: list[list[Call]] = [[] for _ in range(_bin_count(seconds, width))]
    for call in finished(calls):
        bins[min(int(call.due / width), len(bins) - 1)].append(call)
    return [((place + 0.5) * width, success_rate(group)) for place, group in enumerate(bins)]


def sent_curve(calls: Iterable[Call], seconds: float, width: float) -> Curve:
    """Return the attempts per second in each `width` seconds, as (middle, rate)."""
    times = sent_at(calls)
    edges = [place * width for place in range(_bin_count(seconds, width) + 1)]
    places = [bisect_left(times, edge) for edge in edges]
    return [
        (edges[place] + width / 2, (places[place + 1] - places[place]) / width)
        for place in range(len(edges) - 1)
    ]


def _bin_count(seconds: float, width: float) -> int:
    return max(1, math.ceil(seconds / width - 1e-9))


@dataclass(frozen=True, slots=True)
class Agreement:
    """The client's record beside the server's: `ok` when nothing in one contradicts the other."""

    sent: int
    read: int
    refused: int
    ok: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """What one arm came to. Times in seconds; None where nothing was measured. Immutable."""

    arm: str
    calls: int
    unfinished: int
    success: float | None
    p50: float | None
    p99: float | None
    attempts: int
    amplification: float | None
    shed: int
    wrong_calls: int
    wrong_repeated: int
    peak_down: int | None
    peak_back: int | None
    by_phase: tuple[float | None, ...]
    server: Agreement


def figures(arm: str, calls: Sequence[Call], seen: Sequence[Seen], script: Script, elapsed: float) -> Figures:
    """Sum up one arm after `elapsed` seconds of the script."""
    ended = finished(calls)
    latencies = [call.latency for call in ended if call.latency is not None]
    times = sent_at(calls)
    return Figures(
        arm=arm,
        calls=len(ended),
        unfinished=len(calls) - len(ended),
        success=success_rate(ended),
        p50=percentile(latencies, 0.50),
        p99=percentile(latencies, 0.99),
        attempts=len(times),
        amplification=share(len(times), len(calls)),
        shed=sum(call.shed for call in calls),
        wrong_calls=sum(call.wrong is not None for call in ended),
        wrong_repeated=wrong_repeated(seen),
        # From a little before: the drop itself is the moment the herd would start from.
        peak_down=_highest(
            peak(times, begin - PEAK_WINDOW, end) for begin, end in script.downs if begin < elapsed
        ),
        peak_back=_highest(
            peak((request.at for request in seen), end, end + _AFTER)
            for _, end in script.downs
            if end < elapsed
        ),
        by_phase=_by_phase(ended, script),
        server=agreement(calls, seen),
    )


def wrong_repeated(seen: Iterable[Seen]) -> int:
    """Count the requests the server read again after it had answered 404 or 422 to the same call."""
    told: set[int] = set()
    repeated = 0
    for request in sorted(seen, key=lambda request: (request.call, request.attempt)):
        repeated += request.call in told
        if request.status in _PERMANENT:
            told.add(request.call)
    return repeated


def repeated_so_far(calls: Iterable[Call]) -> int:
    """Count the same from the client's side, for the live table: attempts after a 404 or 422."""
    return sum(
        sum(attempt.result in _PERMANENT for attempt in call.attempts[:-1])
        for call in calls
        if call.wrong is not None
    )


def agreement(calls: Sequence[Call], seen: Sequence[Seen]) -> Agreement:
    """Compare by call and attempt: nothing read that was not sent, or sent once and read twice.

    What got an answer was read, with the same status; what was refused was not. In between are the
    requests that were on their way when the server dropped its connections: either is possible.
    """
    sent = {
        (call.number, place): attempt.result
        for call in calls
        for place, attempt in enumerate(call.attempts, 1)
    }
    read = Counter((request.call, request.attempt) for request in seen)
    status = {(request.call, request.attempt): request.status for request in seen}
    answered = {key: result for key, result in sent.items() if isinstance(result, int)}
    refused = {key for key, result in sent.items() if result == REFUSED}
    ok = (
        read.keys() <= sent.keys()
        and all(count == 1 for count in read.values())
        and all(status.get(key) == result for key, result in answered.items())
        and not refused & read.keys()
    )
    return Agreement(len(sent), len(seen), len(refused), ok)


def _highest(peaks: Iterable[int]) -> int | None:
    return max(peaks, default=None)


def _by_phase(ended: Sequence[Call], script: Script) -> tuple[float | None, ...]:
    ordered = sorted(ended, key=lambda call: call.due)
    due = [call.due for call in ordered]
    rates: list[float | None] = []
    for phase in script.incidents:
        part = ordered[bisect_left(due, phase.start) : bisect_right(due, phase.end)]
        rates.append(success_rate(part))
    return tuple(rates)
