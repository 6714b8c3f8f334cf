"""What the tests of the breaker share: a rule, steps in one word, and a model written as plainly as it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from perdure.core.breaker import BreakerState

if TYPE_CHECKING:
    from perdure.core.lease import Lease

WINDOW = 30.0
LEASE = 10.0


@dataclass(frozen=True)
class Rule:
    """The fields that the machine reads; three failures in a row trip it, and nothing else unless said."""

    failures: int | None = 3
    failure_rate: float | None = None
    min_calls: int = 20
    slow: float | None = None
    slow_rate: float | None = None
    cooldown: float = 60
    max_cooldown: float = 300
    probes: int = 1
    successes: int = 2
    ramp: bool = False
    mode: Literal["on", "shadow"] = "on"


def whole() -> float:
    """The draw at the end of its range: open times come out unshortened."""
    return 1.0


def breaker(*, window: float = WINDOW, lease: float = LEASE, **fields: Any) -> BreakerState:
    return BreakerState(Rule(**fields), window=window, lease=lease)


def admitted(machine: BreakerState, now: float) -> Lease:
    lease = machine.acquire(now, whole)
    assert lease is not None, f"refused at {now}"
    return lease


def fail(machine: BreakerState, now: float, hint: float | None = None, took: float | None = None) -> None:
    machine.failure(admitted(machine, now), now, whole, hint, took)


def succeed(machine: BreakerState, now: float, took: float | None = None) -> None:
    machine.success(admitted(machine, now), now, took)


def trip(machine: BreakerState, now: float, hint: float | None = None) -> float:
    """Three failures at once; gives the open time."""
    for _ in range(3):
        fail(machine, now, hint)
    name, fields = machine.changes[-1]
    assert name == "breaker.opened"
    machine.changes.clear()
    return fields["delay"]  # type: ignore[return-value]


def half_opened(now: float = 100, **fields: Any) -> tuple[BreakerState, Lease]:
    """A breaker that let its first probe through ``now``, and the probe."""
    machine = breaker(**fields)
    trip(machine, now - 60)
    probe = admitted(machine, now)
    assert told(machine) == ["breaker.half_open"]
    return machine, probe


def told(machine: BreakerState) -> list[str]:
    """The names of what happened since this was last asked."""
    names = [name for name, _ in machine.changes]
    machine.changes.clear()
    return names


Token = tuple[int, int | None]  # period, number of the probe


@dataclass
class Model:
    """The breaker without ramp, slow calls and random times, for the one that is tested to be held against."""

    rule: Rule
    now: float = 0.0
    state: str = "closed"
    period: int = 0
    probes: dict[int, float] = field(default_factory=dict)  # those out: number and expiry
    last_probe: int = 0
    good: int = 0
    results: list[tuple[float, bool]] = field(
        default_factory=list
    )  # of this period: when, and whether it failed
    trips: int = 0
    delay: float = 0.0
    until: float = 0.0  # end of the open time
    good_at: float = float("inf")  # closed for good
    news: list[str] = field(default_factory=list)

    def wait(self, now: float) -> None:
        self.now = max(self.now, now)
        for number in [number for number, expiry in self.probes.items() if expiry <= self.now]:
            del self.probes[number]
            self.news.append("breaker.lease_expired")

    def begin(self, state: str, news: str) -> None:
        self.state, self.period, self.probes, self.good, self.results = state, self.period + 1, {}, 0, []
        self.news.append(news)

    def acquire(self, now: float) -> Token | None:
        self.wait(now)
        if self.state == "closed":
            return self.period, None
        if self.state == "open" and self.now >= self.until:
            self.begin("half_open", "breaker.half_open")
        if self.state == "open" or len(self.probes) >= min(self.rule.probes, self.rule.successes - self.good):
            return None
        self.last_probe += 1
        self.probes[self.last_probe] = self.now + LEASE
        return self.period, self.last_probe

    def abandon(self, token: Token, now: float) -> None:
        self.wait(now)
        if token[1] is not None:
            self.probes.pop(token[1], None)

    def report(self, token: Token, now: float, *, failed: bool, hint: float = 0.0) -> None:
        self.wait(now)
        period, probe = token
        if period != self.period or (probe is not None and probe not in self.probes):
            self.news.append("breaker.late_result")
        elif probe is None:
            self.results.append((self.now, failed))
            if failed and self.should_open():
                self.open(hint)
        elif failed:
            self.open(hint)
        else:
            del self.probes[probe]
            self.good += 1
            if self.good == self.rule.successes:
                self.good_at = self.now + max(WINDOW, self.delay)
                self.begin("closed", "breaker.closed")

    def should_open(self) -> bool:
        wanted = self.rule.failures
        if wanted is not None:
            run = self.results[-wanted:]
            if len(run) == wanted and all(failed for _, failed in run) and self.now - run[0][0] <= WINDOW:
                return True
        tenth = WINDOW / 10  # the window moves on by a tenth at a time
        recent = [failed for at, failed in self.results if at // tenth > self.now // tenth - 10]
        rate = self.rule.failure_rate
        return rate is not None and len(recent) >= self.rule.min_calls and sum(recent) / len(recent) >= rate

    def open(self, hint: float) -> None:
        self.trips = 1 if self.now >= self.good_at else self.trips + 1
        self.delay = min(self.rule.max_cooldown, self.rule.cooldown * 2 ** (self.trips - 1))
        self.until = self.now + max(self.delay, hint + min(hint / 2, 10) if hint else 0)
        self.good_at = float("inf")
        self.begin("open", "breaker.opened")
