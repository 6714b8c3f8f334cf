"""A breaker as plain JSON, so that its state outlives the process or is shared by several.

Monotonic times mean nothing elsewhere: everything is kept as an age, or as the seconds left. An open time that
ran out meanwhile leads to probes, never straight to closed. Leases that are out belong to the process that has
them and are not kept; the generation is, so that no result of the old machine counts in the new one.

Fields: state, generation, trips, delay (the last open time before jitter), succeeded (probes), open_left and
trips_left (seconds, null: does not apply), ramp_age, ramp_length, peak, run (ages of the failures in a row) and
results ([age, ok, failed, slow], oldest first).
"""

from __future__ import annotations

from perdure.core.backoff import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from perdure.core.breaker import BreakerState, State

__all__ = ["kept", "restore"]

STATES: tuple[State, ...] = ("closed", "open", "half_open", "ramping")
MOST = 10**15  # of anything counted; more is no count
_FOREVER = float("inf")


def kept(breaker: BreakerState, now: float) -> dict[str, object]:
    """What to write down; ``now`` is the time the machine has advanced to."""
    cooling, ramp = breaker._cooling, breaker._ramp
    return {
        "state": breaker._state,
        "generation": breaker._generation,
        "trips": cooling.trips,
        "delay": cooling.length,
        "succeeded": breaker._succeeded,
        "open_left": max(0.0, cooling.until - now) if breaker._state == "open" else None,
        "trips_left": max(0.0, cooling.forgets_at - now) if cooling.forgets_at < _FOREVER else None,
        "ramp_age": now - ramp.began if breaker._state == "ramping" else None,
        "ramp_length": ramp.length,
        "peak": ramp.peak,
        "run": breaker._tally.run_ages(now),
        "results": [list(row) for row in breaker._tally.result_ages(now)],
    }


def restore(breaker: BreakerState, data: object, now: float) -> None:
    """Put what was written down into a fresh machine. Raises ValueError naming the field that makes no sense."""
    fields = _Fields(data)
    state = fields.state()
    generation, trips = fields.count("generation"), fields.count("trips")
    succeeded, peak = fields.count("succeeded"), fields.count("peak")
    delay, length = fields.seconds("delay"), fields.seconds("ramp_length")
    open_left = fields.seconds("open_left") if state == "open" else 0.0
    ramp_age = fields.seconds("ramp_age") if state == "ramping" else 0.0
    trips_left = _FOREVER if fields.is_null("trips_left") else fields.seconds("trips_left")
    run, results = fields.run(), fields.results()

    breaker._generation = generation
    breaker._ramp.saw(peak)
    breaker._ramp.start(now - ramp_age, length)
    breaker._begin(state if state != "ramping" or breaker._rule.ramp else "closed")
    cooling = breaker._cooling
    cooling.trips, cooling.length = trips, delay
    cooling.until, cooling.forgets_at = now + open_left, now + trips_left
    # The rule may ask for fewer probes by now: then one more decides, else nothing ever would.
    breaker._succeeded = min(succeeded, breaker._rule.successes - 1)
    breaker._tally.refill(now, run, results)


class _Fields:
    """Reads fields that somebody else may have written."""

    def __init__(self, data: object) -> None:
        if not isinstance(data, dict):
            raise _nonsense("the breaker must be an object", data)
        self._data: dict[str, object] = data

    def is_null(self, name: str) -> bool:
        return self._get(name) is None

    def state(self) -> State:
        value = self._get("state")
        for state in STATES:
            if value == state:
                return state
        raise _nonsense(f"state must be one of {', '.join(STATES)}", value)

    def count(self, name: str) -> int:
        return _count(name, self._get(name))

    def seconds(self, name: str) -> float:
        return _seconds(name, self._get(name))

    def run(self) -> list[float]:
        return [_seconds("run", age) for age in self._list("run")]

    def results(self) -> list[tuple[float, int, int, int]]:
        rows: list[tuple[float, int, int, int]] = []
        for row in self._list("results"):
            if not _is_list(row) or len(row) != 4:
                raise _nonsense("results must hold lists of age, ok, failed, slow", row)
            ok, failed, slow = (_count("results", count) for count in row[1:])
            rows.append((_seconds("results", row[0]), ok, failed, slow))
        return rows

    def _list(self, name: str) -> list[object]:
        value = self._get(name)
        if not _is_list(value):
            raise _nonsense(f"{name} must be a list", value)
        return value

    def _get(self, name: str) -> object:
        if name not in self._data:
            raise ValueError(f"{name} is missing")
        return self._data[name]


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise _nonsense(f"{name} must be a whole number >= 0", value)
    return value


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        raise _nonsense(f"{name} must be a number of seconds >= 0", value)
    return float(value)


def _nonsense(rule: str, value: object) -> ValueError:
    return ValueError(f"{rule}, got {value!r}")
