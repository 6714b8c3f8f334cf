"""One run of the demo: server, traffic, display, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.cli.demo.measure import figures
from perdure.cli.demo.process import ServerProcess
from perdure.cli.demo.report import Result
from perdure.cli.demo.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.cli.demo.arms import Arm
    from perdure.cli.demo.live import Display
    from perdure.cli.demo.script import Script

_REFRESH: Final = 0.2
_LAST_CALLS: Final = 8.0


def run(script: Script, arms: Sequence[Arm], display: Display) -> Result:
    """Play the script against all arms at once and sum up. Ctrl-C ends it early with what there is."""
    with ServerProcess(script, [arm.name for arm in arms]) as server:
        traffic = Traffic(script, arms, server.ports)
        server.start()
        traffic.start()
        interrupted = False
        try:
            _watch(traffic, script, display)
        except KeyboardInterrupt:
            interrupted = True
        traffic.halt()
        elapsed = traffic.now
        ledger = server.stop()
    calls = [traffic.calls[arm.name] for arm in arms]
    summed = [
        figures(arm.name, of_arm, ledger[arm.name], script, elapsed)
        for arm, of_arm in zip(arms, calls, strict=True)
    ]
    return Result.of(script, elapsed, interrupted, summed, calls)


def _watch(traffic: Traffic, script: Script, display: Display) -> None:
    with display:
        ended = False
        while not ended and traffic.now < script.seconds + _LAST_CALLS:
            ended = traffic.wait(_REFRESH)
            display.update(traffic, traffic.now)
