"""What the overload scene says at the end: one set of rows and sentences for terminal, page and JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.cli.demo import report
from perdure.cli.demo.measure import sent_curve
from perdure.cli.demo.overload.measure import (
    WELL,
    WINDOW,
    Second,
    good_curve,
    longest_measured,
    second,
)
from perdure.cli.demo.overload.plan import SLOWER, WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.cli.demo.measure import Curve
    from perdure.cli.demo.overload.measure import Figures
    from perdure.cli.demo.overload.plan import Plan
    from perdure.cli.demo.traffic import Call

NOTE: Final = (
    f"Recovered: from then on, of the calls that start in any {WINDOW:g} s at least {WELL:.0%} succeed. "
    "Refused unsent (shed): the Dependency's gate ended the call at once with Overloaded, and the server "
    "never saw it; such a call counts as failed."
)
LIMITS: Final = (
    (
        "This server has a queue without a bound and does not notice that a client has left. One that "
        "refuses what it cannot do in time recovers soon in every arm: if the server is yours, begin there."
    ),
    "One process makes all calls. Many small ones each see less of the overload, and recover later.",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run of the scene: how far it came, and for each arm the figures, the seconds and two curves."""

    plan: Plan
    elapsed: float
    interrupted: bool
    figures: tuple[Figures, ...]
    seconds: tuple[tuple[Second, ...], ...]
    good: tuple[Curve, ...]
    sent: tuple[Curve, ...]

    @classmethod
    def of(
        cls,
        plan: Plan,
        elapsed: float,
        interrupted: bool,  # noqa: FBT001 - a field, named at the call
        figures: Sequence[Figures],
        calls: Sequence[Sequence[Call]],
    ) -> Result:
        """Add the seconds and the curves."""
        shown = int(min(elapsed, plan.seconds))
        seconds = tuple(tuple(second(of_arm, begin) for begin in range(shown)) for of_arm in calls)
        good = tuple(good_curve(of_arm, shown) for of_arm in calls)
        sent = tuple(sent_curve(of_arm, shown, 1.0)[:shown] for of_arm in calls)
        return cls(plan, elapsed, interrupted, tuple(figures), seconds, good, sent)

    @property
    def agrees(self) -> bool:
        """Whether the server's ledger and the clients' record contradict each other nowhere."""
        return all(of_arm.server.ok for of_arm in self.figures)


def setting(plan: Plan) -> str:
    """Say what is played, in the numbers of the plan."""
    return (
        f"{plan.rate:.3g} calls/s come to {WORKERS} workers that can do {plan.capacity:.3g}/s, behind a "
        f"queue without a bound; from {plan.calm:g} s to {plan.healed:g} s all work takes {SLOWER} times as "
        f"long, then the server is healthy again. Clients wait {plan.timeout:g} s for an answer. Each arm "
        "has a server of its own."
    )


def recovered(figures: Figures, result: Result) -> str:
    """Say after how many seconds, or that it did not."""
    if result.interrupted:
        return "-"
    if figures.recovery is None:
        return f"not within {longest_measured(result.plan):g} s"
    return f"{figures.recovery:g} s"


def rows(result: Result) -> list[tuple[str, ...]]:
    """Return the figures as a name and one cell for each arm."""
    lines = [("recovered after the fault", *(recovered(of_arm, result) for of_arm in result.figures))]
    return lines + [(name, *(cell(of_arm) for of_arm in result.figures)) for name, cell in _ROWS]


_ROWS: Final[tuple[tuple[str, Callable[[Figures], str]], ...]] = (
    ("success: all calls", lambda figures: report.percent(figures.success)),
    ("success: before the fault", lambda figures: report.percent(figures.before)),
    ("success: during the fault", lambda figures: report.percent(figures.during)),
    ("success: after the fault", lambda figures: report.percent(figures.after)),
    ("calls", lambda figures: f"{figures.calls:,}"),
    ("refused unsent", lambda figures: f"{figures.shed:,}"),
    ("attempts sent", lambda figures: f"{figures.attempts:,}"),
    ("attempts per call", lambda figures: report.ratio(figures.amplification)),
    ("server: requests read", lambda figures: f"{figures.server.read:,}"),
    ("server: work done", lambda figures: f"{figures.done:,}"),
    ("server: of it for nobody", lambda figures: f"{figures.wasted:,}"),
)


def findings(result: Result) -> list[str]:
    """Say what this run shows, in its own numbers, whoever is ahead."""
    none, retry, ours = result.figures
    lines: list[str] = []
    if not result.interrupted:
        lines.append(
            "Recovery after the server was healthy again: "
            f"{recovered(ours, result)} by the Dependency, {recovered(none, result)} with no retry, "
            f"{recovered(retry, result)} with @perdure.retry alone."
        )
    lines += [
        (
            f"Load: @perdure.retry alone sent {report.ratio(retry.amplification)} attempts per call, the "
            f"Dependency {report.ratio(ours.amplification)}. Of the work its server did, "
            f"{_share(retry.wasted, retry.done)} was for nobody, against {_share(ours.wasted, ours.done)} "
            f"(no retry: {_share(none.wasted, none.done)})."
        ),
        (
            f"The price: the Dependency refused {ours.shed:,} of {ours.calls:,} calls without sending them. "
            f"While the server was slow, {report.percent(ours.during)} of its calls succeeded, "
            f"{report.percent(retry.during)} with @perdure.retry alone and {report.percent(none.during)} "
            "with no retry."
        ),
    ]
    behind = [of_arm for of_arm in (none, retry) if (of_arm.after or 0.0) > (ours.after or 0.0)]
    lines += [
        f"After the fault the Dependency did worse than {of_arm.arm}: {report.percent(ours.after)} of calls "
        f"succeeded against {report.percent(of_arm.after)}."
        for of_arm in behind
    ]
    return lines


def _share(part: int, whole: int) -> str:
    return report.percent(part / whole if whole else None)


def doubts(result: Result) -> list[str]:
    """Say what makes the figures worth less: disagreeing records, a busy machine, a run cut short."""
    lines: list[str] = []
    if not result.agrees:
        lines.append(agreement_line(result))
    lowest = min((of_arm.before for of_arm in result.figures if of_arm.before is not None), default=1.0)
    if lowest < WELL:
        lines.append(
            f"Before the fault only {report.percent(lowest)} of the calls of an arm succeeded: this machine "
            "was too busy for the scene, and its figures show that too."
        )
    if result.interrupted:
        lines.append(f"interrupted after {result.elapsed:.1f} s of {result.plan.seconds:g} s.")
    return lines


def open_line(result: Result) -> str | None:
    """Say how many calls had no end when the scene had, or None."""
    parts = [f"{of_arm.unfinished:,} ({of_arm.arm})" for of_arm in result.figures if of_arm.unfinished]
    if not parts:
        return None
    return (
        "Calls without an end when the scene ended, which count as not succeeded: " + ", ".join(parts) + "."
    )


def agreement_line(result: Result) -> str:
    """Say whether the server counted what the clients claim."""
    sent = sum(of_arm.server.sent for of_arm in result.figures)
    read = sum(of_arm.server.read for of_arm in result.figures)
    answered = sum(of_arm.done - of_arm.wasted for of_arm in result.figures)
    done = sum(of_arm.done for of_arm in result.figures)
    verdict = "the two records agree" if result.agrees else "THE TWO RECORDS DO NOT AGREE"
    return (
        f"{verdict}: clients sent {sent:,} and got {answered:,} answers, server read {read:,} and did the "
        f"work for {done:,}."
    )


def as_dict(result: Result) -> dict[str, object]:
    """Return the scene as plain values for JSON: seconds, shares between 0 and 1, null for unmeasured."""
    plan = result.plan
    return {
        "plan": {**dataclasses.asdict(plan), "capacity": plan.capacity, "timeout": plan.timeout},
        "elapsed": round(result.elapsed, 3),
        "interrupted": result.interrupted,
        "records_agree": result.agrees,
        "longest_recovery_measured": longest_measured(plan),
        "arms": {
            of_arm.arm: {**_without_name(of_arm), "by_second": [dataclasses.asdict(one) for one in seconds]}
            for of_arm, seconds in zip(result.figures, result.seconds, strict=True)
        },
    }


def _without_name(figures: Figures) -> dict[str, object]:
    values: dict[str, object] = dataclasses.asdict(figures)
    del values["arm"]  # it is the key
    return values
