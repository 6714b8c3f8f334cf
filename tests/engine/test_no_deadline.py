"""``perdure.no_deadline``: clean-up that must be done is not interrupted, before and after the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import Retry, time_left
from tests.engine.tasks import LOOPS, forever
from tests.harness import run_async

if TYPE_CHECKING:
    from perdure.testing import VirtualClock

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.mark.parametrize("loop", LOOPS)
class TestAsync:
    def test_no_deadline_keeps_every_end_around_from_interrupting(
        self, loop: str, clock: VirtualClock
    ) -> None:
        cleaned: list[float] = []

        async def main() -> None:
            with perdure.deadline(1), perdure.deadline(2):
                async with perdure.no_deadline():
                    assert time_left() is None
                    await clock.asleep(5)
                    cleaned.append(clock.now)
                await clock.asleep(5)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert cleaned == [5]
        assert clock.now == 5, "an end that passed meanwhile interrupts at once"

    def test_an_end_that_has_not_come_yet_holds_again_after_no_deadline(
        self, loop: str, clock: VirtualClock
    ) -> None:
        async def main() -> None:
            with perdure.deadline(3):
                with perdure.no_deadline():
                    await clock.asleep(1)
                assert time_left() == 2
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert clock.now == 3

    def test_clean_up_after_the_end_came_is_done_in_no_deadline(self, loop: str, clock: VirtualClock) -> None:
        """What no_deadline is for: the end has interrupted the work, and what it held must be given back."""
        cleaned: list[float] = []

        async def main() -> None:
            with perdure.deadline(1):
                try:
                    await forever(loop)
                finally:
                    async with perdure.no_deadline():
                        await clock.asleep(5)
                        cleaned.append(clock.now)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert cleaned == [6]

    def test_clean_up_after_an_attempt_timeout_is_done_in_no_deadline(
        self, loop: str, clock: VirtualClock
    ) -> None:
        cleaned: list[float] = []

        async def work() -> None:
            try:
                await forever(loop)
            finally:
                with perdure.no_deadline():
                    await clock.asleep(5)
                    cleaned.append(clock.now)

        with pytest.raises(perdure.AttemptTimeout):
            run_async(loop, Retry(attempts=1, attempt_timeout=1)(work))
        assert cleaned == [6]

    def test_no_deadline_within_no_deadline_changes_nothing(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> str:
            with perdure.deadline(1):
                with perdure.no_deadline():
                    with perdure.no_deadline():
                        pass
                    await clock.asleep(0.5)
                return "in time"

        assert run_async(loop, main) == "in time"

    def test_no_deadline_also_lifts_an_attempt_timeout(self, loop: str, clock: VirtualClock) -> None:
        async def work() -> str:
            with perdure.no_deadline():
                await clock.asleep(5)
            return "cleaned"

        assert run_async(loop, Retry(attempt_timeout=1)(work)) == "cleaned"

    def test_an_end_inside_no_deadline_holds(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> None:
            with perdure.deadline(9), perdure.no_deadline(), perdure.deadline(1):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded, match="deadline of 1 s"):
            run_async(loop, main)
        assert clock.now == 1
