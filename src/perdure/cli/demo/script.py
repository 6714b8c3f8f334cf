"""The script of the demo: what the server does at which moment, and which calls arrive.

Everything here is a function of the seed, the length of the run, the call and the attempt. So the
arms meet the same server: attempt 2 of call 17 gets the same answer in each of them when it
arrives in the same phase. Nothing here touches a socket or a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["clean", "errors", "slow", "restart", "throttle", "outage", "recovery", "brownout"]

RATE: Final = 40.0
CLIENT_TIMEOUT: Final = 0.5
ERROR_SHARE: Final = 0.15
SLOW_SHARE: Final = 0.25
SLOW_ANSWER: Final = 1.2
WRONG_SHARE: Final = 0.05
RETRY_AFTER: Final = 1

# Seconds in a run of 20, and the longest the phase may become in a longer run: a restart takes what
# it takes, however long somebody watches.
_PLAN: Final[tuple[tuple[Kind, float, float | None], ...]] = (
    ("clean", 2.0, None),
    ("errors", 4.0, None),
    ("clean", 1.0, None),
    ("slow", 3.0, None),
    ("clean", 1.0, None),
    ("restart", 0.65, 0.65),
    ("clean", 1.35, None),
    ("throttle", 1.5, 1.5),
    ("clean", 1.5, None),
    ("outage", 2.0, 2.0),
    ("recovery", 2.0, None),
)
_STALLED_SHARE: Final = 0.55

LABELS: Final[dict[Kind, str]] = {
    "clean": "clean",
    "errors": "errors",
    "slow": "slow",
    "restart": "restart",
    "throttle": "503",
    "outage": "outage",
    "recovery": "recovered",
    "brownout": "brownout",
}


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the run, in seconds from its start. Immutable, shared freely."""

    kind: Kind
    start: float
    end: float

    @property
    def label(self) -> str:
        """The short name that stands in tables and over the curves."""
        return LABELS[self.kind]

    @property
    def down(self) -> tuple[float, float] | None:
        """From when to when the port is closed, or None. A restart hangs first, then closes."""
        if self.kind == "outage":
            return self.start, self.end
        if self.kind == "restart":
            return self.start + _STALLED_SHARE * (self.end - self.start), self.end
        return None

    @property
    def what(self) -> str:
        """One sentence on what the server does, with the numbers of this run."""
        return _sentence(self)


def _sentence(phase: Phase) -> str:  # noqa: PLR0911 - one for each kind
    length = f"{phase.end - phase.start:.1f} s"
    closed = phase.down
    match phase.kind:
        case "errors":
            return f"{ERROR_SHARE:.0%} of answers are a 500, a 503 or a cut connection, at random"
        case "slow":
            return f"{SLOW_SHARE:.0%} of answers take {SLOW_ANSWER} s; clients wait {CLIENT_TIMEOUT} s"
        case "restart":
            down = 0.0 if closed is None else closed[1] - closed[0]
            return f"hangs, drops every open connection at once, refuses new ones for {down:.1f} s"
        case "throttle":
            return f"503 with Retry-After: {RETRY_AFTER} for every request, for {length}"
        case "outage":
            return f"the port is closed for {length}: every connection is refused"
        case "brownout":
            return f"the work on each request takes ten times as long, for {length}"
        case "clean" | "recovery":
            return "answers as it should"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one attempt: wait `delay` seconds, then answer or cut the line."""

    status: int
    delay: float
    retry_after: int | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The whole run, decided beforehand. Immutable, the same in the server and in the clients."""

    seed: int
    seconds: float
    phases: tuple[Phase, ...]

    @classmethod
    def build(cls, seed: int, seconds: float) -> Script:
        """Lay the phases over `seconds`; those with a longest length leave the rest to the others."""
        scale = seconds / sum(length for _, length, _ in _PLAN)
        fixed = [_bounded(length * scale, longest) for _, length, longest in _PLAN]
        left = seconds - sum(length for length in fixed if length is not None)
        open_ended = sum(length for _, length, longest in _PLAN if longest is None)
        phases: list[Phase] = []
        at = 0.0
        for (kind, length, _), known in zip(_PLAN, fixed, strict=True):
            end = at + (length * left / open_ended if known is None else known)
            phases.append(Phase(kind, at, end))
            at = end
        return cls(seed, seconds, tuple(phases))

    def settings(self) -> dict[str, object]:
        """Return what the server's process needs to build the same script."""
        return {"scene": "faults", "values": {"seed": self.seed, "seconds": self.seconds}}

    @property
    def timeout(self) -> float:
        """How long a client waits for an answer, in every arm."""
        return CLIENT_TIMEOUT

    def at(self, now: float) -> Phase:
        """Return the phase of that moment; before the start the first, after the end the last."""
        return next((phase for phase in self.phases if now < phase.end), self.phases[-1])

    @property
    def incidents(self) -> tuple[Phase, ...]:
        """The phases in which something is wrong."""
        return tuple(phase for phase in self.phases if phase.kind not in {"clean", "recovery"})

    @property
    def downs(self) -> tuple[tuple[float, float], ...]:
        """When the port is closed, as (from, to)."""
        return tuple(phase.down for phase in self.phases if phase.down is not None)

    def wrong(self, call: int) -> int | None:
        """Return the status of a request that can never succeed (404 or 422), else None."""
        rng = Random(f"{self.seed}/wrong/{call}")
        return rng.choice((404, 422)) if rng.random() < WRONG_SHARE else None

    def arrivals(self, rate: float = RATE) -> Iterator[float]:
        """Yield when each call starts: independent users, so gaps are exponential."""
        rng = Random(f"{self.seed}/arrivals")
        at = rng.expovariate(rate)
        while at < self.seconds:
            yield at
            at += rng.expovariate(rate)

    def answer(self, call: int, attempt: int, now: float) -> Answer | None:
        """Decide one attempt. None: the server hangs and never answers."""
        phase = self.at(now)
        rng = Random(f"{self.seed}/{call}/{attempt}")
        delay = 0.005 + min(rng.expovariate(1 / 0.010), 0.1)
        if phase.kind in {"restart", "outage"}:
            return None
        if phase.kind == "throttle":
            return Answer(503, 0.002, retry_after=RETRY_AFTER)
        wrong = self.wrong(call)
        if wrong is not None:
            return Answer(wrong, delay)
        if phase.kind == "errors" and rng.random() < ERROR_SHARE:
            status = rng.choice((500, 503, 0))
            return Answer(status, delay, reset=status == 0)
        if phase.kind == "slow" and rng.random() < SLOW_SHARE:
            return Answer(200, SLOW_ANSWER)
        return Answer(200, delay)


def _bounded(length: float, longest: float | None) -> float | None:
    return None if longest is None else min(length, longest)
