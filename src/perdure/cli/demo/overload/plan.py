"""The overload scene: how much work comes, how much the server can do, and when it becomes slow.

A function of the seed and of a few numbers, like the script of the first scene: the three arms get
the same calls, and attempt 2 of call 17 is as much work in each of them. Nothing here touches a
socket or a clock.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from heapq import heapreplace
from random import Random
from typing import TYPE_CHECKING, Final, Literal, Self

from perdure.cli.demo.script import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS: Final = 4
SLOWER: Final = 10
CLIENT_TIMEOUT: Final = 1.0

Stage = Literal["healthy", "brownout", "healthy again"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole scene, decided beforehand. Immutable, the same in the server and in the clients.

    `rate`: calls per second. `service`: seconds of work for one attempt, on average. `calm`, `fault`
    and `after`: seconds of each stage.
    """

    seed: int
    rate: float = 32.0
    service: float = 0.1
    calm: float = 3.0
    fault: float = 3.5
    after: float = 14.5

    def slower(self, pace: float) -> Self:
        """Return the same load with fewer calls, each of which is more work: for a busy machine."""
        return dataclasses.replace(self, rate=self.rate * pace, service=self.service / pace)

    def settings(self) -> dict[str, object]:
        """Return what the server's process needs to build the same plan."""
        return {"scene": "overload", "values": dataclasses.asdict(self)}

    @property
    def seconds(self) -> float:
        """How long calls are made."""
        return self.calm + self.fault + self.after

    @property
    def healed(self) -> float:
        """The second at which the server works at its usual speed again."""
        return self.calm + self.fault

    @property
    def capacity(self) -> float:
        """Attempts per second that the healthy server can work off."""
        return WORKERS / self.service

    @property
    def timeout(self) -> float:
        """How long a client waits for an answer, in every arm."""
        return CLIENT_TIMEOUT

    @property
    def incidents(self) -> tuple[Phase, ...]:
        """The one stretch in which something is wrong."""
        return (Phase("brownout", self.calm, self.healed),)

    def at(self, now: float) -> Stage:
        """Return the stage of that moment."""
        if now < self.calm:
            return "healthy"
        return "brownout" if now < self.healed else "healthy again"

    def wrong(self, call: int) -> int | None:  # noqa: ARG002 - the first scene's question
        """Return None: every request can succeed here."""
        return None

    def arrivals(self) -> Iterator[float]:
        """Yield when each call starts, whatever became of the ones before: gaps are exponential."""
        rng = Random(f"{self.seed}/arrivals")
        at = rng.expovariate(self.rate)
        while at < self.seconds:
            yield at
            at += rng.expovariate(self.rate)

    def work(self, call: int, attempt: int, now: float) -> float:
        """Return the seconds of work for an attempt that a worker begins at `now`."""
        usual = self.service * (0.5 + Random(f"{self.seed}/{call}/{attempt}").random())
        return usual * SLOWER if self.at(now) == "brownout" else usual


class Workers:
    """The workers of one server and the queue before them, first come, first served, without a bound.

    What has been read is worked off, whether or not its client still waits. Pure arithmetic: because
    nothing overtakes, the moment an attempt will be done is known when it arrives, and a late timer of
    a busy machine takes nothing from the capacity. For one thread.
    """

    def __init__(self, plan: Plan) -> None:
        """Begin with all workers free."""
        self._plan = plan
        self._free = [0.0] * WORKERS

    def take(self, call: int, attempt: int, now: float) -> float:
        """Put an attempt that arrives at `now` in the queue, and return when it will be done."""
        begin = max(now, self._free[0])
        done = begin + self._plan.work(call, attempt, begin)
        heapreplace(self._free, done)
        return done
