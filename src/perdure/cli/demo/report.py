"""What the demo says at the end: one set of rows and sentences for the terminal, the page and JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.cli.demo.measure import sent_curve, success_curve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.cli.demo.measure import Curve, Figures
    from perdure.cli.demo.script import Phase, Script
    from perdure.cli.demo.traffic import Call

NOTE: Final = (
    "Success counts the calls that can succeed, not those for a 404 or 422. Times are of all calls, "
    "failures too, from the moment a call was due."
)
LIMITS: Final = (
    (
        "This shows faults that pass, not overload: a bare @perdure.retry has no budget, so where a "
        "service is slow because it is full, its retries add load. The overload scene shows that, and what "
        "a Dependency does about it."
    ),
    (
        "An outage longer than the waits between its attempts is not survived either: compare the "
        "restart with the outage."
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its script, how far it came, and for each arm the figures and the two curves."""

    script: Script
    elapsed: float
    interrupted: bool
    figures: tuple[Figures, ...]
    success: tuple[Curve, ...]
    sent: tuple[Curve, ...]

    @classmethod
    def of(
        cls,
        script: Script,
        elapsed: float,
        interrupted: bool,  # noqa: FBT001  (a field, named at the call)
        figures: Sequence[Figures],
        calls: Sequence[Sequence[Call]],
    ) -> Result:
        """Add the curves: 40 points of success and 80 of attempts over a whole run."""
        shown = min(elapsed, script.seconds)
        success = tuple(success_curve(of_arm, shown, script.seconds / 40) for of_arm in calls)
        sent = tuple(sent_curve(of_arm, shown, script.seconds / 80) for of_arm in calls)
        return cls(script, elapsed, interrupted, tuple(figures), success, sent)

    @property
    def agrees(self) -> bool:
        """Whether the server's ledger and the client's record contradict each other nowhere."""
        return all(of_arm.server.ok for of_arm in self.figures)


def percent(value: float | None) -> str:
    """Format a share; a value short of 1 never reads as 100 %."""
    if value is None:
        return "-"
    shown = f"{value * 100:.1f}%"
    return ">99.9%" if shown == "100.0%" and value < 1 else shown


def milliseconds(value: float | None) -> str:
    """Format seconds as whole milliseconds."""
    return "-" if value is None else f"{value * 1000:,.0f}"


def ratio(value: float | None) -> str:
    """Format attempts per call."""
    return "-" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    """Format a whole number."""
    return "-" if value is None else f"{value:,}"


def rows(result: Result) -> list[tuple[str, ...]]:
    """Return the figures as a name and one cell for each arm."""
    return [(name, *(cell(figures) for figures in result.figures)) for name, cell in _ROWS]


def phase_rows(result: Result) -> list[tuple[str, ...]]:
    """Return the success of the calls that started in each incident, as a name and one cell for each arm."""
    return [
        (phase.label, *(percent(figures.by_phase[place]) for figures in result.figures))
        for place, phase in enumerate(result.script.incidents)
    ]


def findings(result: Result) -> list[str]:
    """Say what this run shows, in its own numbers; where perdure is behind, they say that too."""
    none, naive, ours, guarded = result.figures
    lines = [
        (
            f"Faults that pass: {percent(ours.success)} of calls succeeded with @perdure.retry, "
            f"{percent(guarded.success)} by the Dependency, {percent(naive.success)} in the naive loop, "
            f"{percent(none.success)} with no retry."
        ),
        _comparison(ours, guarded),
        (
            f"Permanent errors: sent again after a 404 or 422: {ours.wrong_repeated} times with "
            f"@perdure.retry, {guarded.wrong_repeated} by the Dependency, {naive.wrong_repeated} in the "
            f"naive loop."
        ),
    ]
    if ours.peak_down is not None:
        lines.append(
            f"Herd: the busiest 100 ms with the port closed saw {ours.peak_down} attempts from "
            f"@perdure.retry, {count(guarded.peak_down)} from the Dependency, {count(naive.peak_down)} from "
            f"the naive loop, {count(none.peak_down)} with no retry."
        )
    if ours.peak_back is not None and naive.peak_back is not None:
        gone = ": calls that gave up send nothing any more" if ours.peak_back > naive.peak_back else ""
        lines.append(
            f"In the second after it opened again the busiest 100 ms had {ours.peak_back} requests from "
            f"@perdure.retry, {count(guarded.peak_back)} from the Dependency, {naive.peak_back} from the "
            f"naive loop, {count(none.peak_back)} with no retry{gone}."
        )
    if ours.p99 is not None and naive.p99 is not None and ours.p99 > naive.p99:
        lines.append(
            f"The price: p99 is {milliseconds(ours.p99)} ms with @perdure.retry against "
            f"{milliseconds(naive.p99)} ms in the naive loop: a call that waits ends later than one that "
            "gives up."
        )
    return lines


def _comparison(ours: Figures, guarded: Figures) -> str:
    """Say what budget and gate did to faults that would have passed: often they cost successes here."""
    did = (
        f"The Dependency sent {guarded.attempts:,} attempts where @perdure.retry alone sent "
        f"{ours.attempts:,}, and refused {guarded.shed:,} of {guarded.calls:,} calls without sending them"
    )
    if (guarded.success or 0.0) < (ours.success or 0.0):
        return (
            f"{did}. Here it does worse: it cannot know that a fault will pass, and its budget pays for few "
            "retries once successes stop."
        )
    return did + "."


def agreement_line(result: Result) -> str:
    """Say whether the server counted what the clients claim."""
    sent = sum(of_arm.server.sent for of_arm in result.figures)
    read = sum(of_arm.server.read for of_arm in result.figures)
    refused = sum(of_arm.server.refused for of_arm in result.figures)
    counts = f"clients sent {sent:,}, server read {read:,}, {refused:,} were refused a connection"
    lost = sent - read - refused
    if lost:
        counts += f", {lost} cut on the way"
    verdict = "the two records agree" if result.agrees else "THE TWO RECORDS DO NOT AGREE"
    return f"{verdict}: {counts}."


def interruption_line(result: Result) -> str | None:
    """Say what is left out, or None when everything ran to its end."""
    unfinished = sum(of_arm.unfinished for of_arm in result.figures)
    if result.interrupted:
        return (
            f"interrupted after {result.elapsed:.1f} s of {result.script.seconds:g} s; "
            f"{unfinished} calls had not ended and are left out."
        )
    return f"{unfinished} calls had not ended and are left out." if unfinished else None


_ROWS: Final[tuple[tuple[str, Callable[[Figures], str]], ...]] = (
    ("success", lambda figures: percent(figures.success)),
    ("p50, ms", lambda figures: milliseconds(figures.p50)),
    ("p99, ms", lambda figures: milliseconds(figures.p99)),
    ("attempts sent", lambda figures: f"{figures.attempts:,}"),
    ("attempts per call", lambda figures: ratio(figures.amplification)),
    ("refused unsent", lambda figures: f"{figures.shed:,}"),
    ("sent again after 404 or 422", lambda figures: f"{figures.wrong_repeated:,}"),
    ("most sent/100 ms, port closed", lambda figures: count(figures.peak_down)),
    ("most read/100 ms, just after", lambda figures: count(figures.peak_back)),
)


def as_dict(result: Result, page: str | None) -> dict[str, object]:
    """Return the run as plain values for JSON: seconds, shares between 0 and 1, null for unmeasured."""
    incidents = result.script.incidents
    return {
        "seed": result.script.seed,
        "seconds": result.script.seconds,
        "elapsed": round(result.elapsed, 3),
        "interrupted": result.interrupted,
        "records_agree": result.agrees,
        "phases": [dataclasses.asdict(phase) for phase in result.script.phases],
        "arms": {
            of_arm.arm: _arm_dict(of_arm, incidents, success, sent)
            for of_arm, success, sent in zip(result.figures, result.success, result.sent, strict=True)
        },
        "page": page,
    }


def _arm_dict(figures: Figures, incidents: Sequence[Phase], success: Curve, sent: Curve) -> dict[str, object]:
    values: dict[str, object] = dataclasses.asdict(figures)
    del values["arm"]  # it is the key
    values["by_phase"] = {phase.kind: rate for phase, rate in zip(incidents, figures.by_phase, strict=True)}
    return {**values, "success_curve": success, "sent_curve": sent}
