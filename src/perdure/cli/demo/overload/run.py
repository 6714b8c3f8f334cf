"""One run of the overload scene: look how fast this machine is, then server, traffic and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.cli.demo.arms import OVERLOAD_ARMS
from perdure.cli.demo.measure import percentile
from perdure.cli.demo.overload.measure import as_of, figures
from perdure.cli.demo.overload.plan import Plan
from perdure.cli.demo.overload.report import Result
from perdure.cli.demo.process import ServerProcess
from perdure.cli.demo.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.cli.demo.live import Display

_REFRESH: Final = 0.1
_LAST_ANSWERS: Final = 0.2
_PROBE: Final = 0.8
# What the arms send at most, in multiples of the calls: one of them four attempts each, two about one.
_BUSIEST: Final = 6
_QUICK: Final = 0.1
_SLOW_PACE: Final = 0.7


def fitting_plan(seed: int) -> Plan:
    """Return the plan, with fewer and longer requests where this machine is slow or busy.

    The most that the scene will send is sent to a server with nothing to do. If that alone takes a
    good part of the time that clients wait, the scene would show the machine and not the arms.
    """
    plan = Plan(seed)
    probe = Plan(seed, plan.rate * _BUSIEST, service=1e-6, calm=_PROBE, fault=0.0, after=0.0)
    arm = OVERLOAD_ARMS[0]
    with ServerProcess(probe, [arm.name]) as server:
        traffic = Traffic(probe, [arm], server.ports)
        server.start()
        traffic.start()
        traffic.wait(_PROBE + _LAST_ANSWERS)
        traffic.halt()
    took = percentile(((call.latency or plan.timeout) for call in traffic.calls[arm.name]), 0.9)
    return plan.slower(_SLOW_PACE) if took is None or took > _QUICK else plan


def run(plan: Plan, display: Callable[[Plan], Display]) -> Result:
    """Play the plan against all arms at once and sum up. Ctrl-C ends it early with what there is."""
    arms = OVERLOAD_ARMS
    with ServerProcess(plan, [arm.name for arm in arms]) as server:
        traffic = Traffic(plan, arms, server.ports)
        server.start()
        traffic.start()
        interrupted = False
        try:
            _watch(traffic, plan, display(plan))
        except KeyboardInterrupt:
            interrupted = True
        traffic.halt()
        elapsed = traffic.now
        ledger = server.stop()
    calls = [as_of(traffic.calls[arm.name], elapsed) for arm in arms]
    summed = [
        figures(arm.name, of_arm, ledger[arm.name], plan, elapsed)
        for arm, of_arm in zip(arms, calls, strict=True)
    ]
    return Result.of(plan, elapsed, interrupted, summed, calls)


def _watch(traffic: Traffic, plan: Plan, display: Display) -> None:
    """Show it second by second until the last first attempts have had their time."""
    with display:
        ended = False
        while not ended and traffic.now < plan.seconds + plan.timeout + _LAST_ANSWERS:
            ended = traffic.wait(_REFRESH)
            display.update(traffic, traffic.now)
