"""``Script``: outcomes one after the other, in every colour, and what was called when."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS
from tests.harness import run_async


@pytest.mark.parametrize("form", ["sync", *LOOPS])
class TestPlay:
    def call(self, form: str, script: Script, *args: object, **kwargs: object) -> Any:
        if form == "sync":
            return script(*args, **kwargs)
        return run_async(form, lambda: script.asynchronous(*args, **kwargs))

    def test_values_are_returned_in_order(self, form: str) -> None:
        script = Script(1, None, [2])
        assert [self.call(form, script) for _ in range(3)] == [1, None, [2]]

    @pytest.mark.parametrize("outcome", [KeyError("k"), KeyError, KeyboardInterrupt()])
    def test_exceptions_and_their_classes_are_raised(self, form: str, outcome: Any) -> None:
        if isinstance(outcome, KeyboardInterrupt) and form != "sync":
            outcome = GeneratorExit()  # loops have their own ways with an interrupt
        with pytest.raises(outcome if isinstance(outcome, type) else type(outcome)) as caught:
            self.call(form, Script(outcome))
        assert isinstance(outcome, type) or caught.value is outcome

    @pytest.mark.parametrize("outcome", ["value", ConnectionError("late")])
    def test_an_outcome_can_take_its_time(self, form: str, outcome: object) -> None:
        with VirtualClock() as clock:
            if isinstance(outcome, Exception):
                with pytest.raises(ConnectionError):
                    self.call(form, Script(took(2.5, outcome)))
            else:
                assert self.call(form, Script(took(2.5, outcome))) == outcome
            assert clock.now == 2.5

    def test_calls_are_remembered_with_arguments_and_times(self, form: str) -> None:
        script = Script(took(1, "a"), "b")
        with VirtualClock():
            self.call(form, script, 1, two=2)
            self.call(form, script)
        assert script.calls == [((1,), {"two": 2}), ((), {})]
        assert script.times[1] - script.times[0] == 1

    def test_a_call_past_the_end_fails_the_test(self, form: str) -> None:
        script = Script("only")
        self.call(form, script)
        with pytest.raises(AssertionError, match=r"the script has 1 outcomes? and was called 2 times"):
            self.call(form, script)

    def test_a_call_past_the_end_is_not_retried_away(self, form: str) -> None:
        script = Script(ConnectionError())
        policy = perdure.Retry(backoff=perdure.Constant(0))
        with pytest.raises(AssertionError, match="the script has 1"):
            if form == "sync":
                policy.call(script)
            else:
                run_async(form, lambda: policy.call(script.asynchronous))


def test_the_colours_share_one_list() -> None:
    script = Script("sync", "async")
    assert script() == "sync"
    assert run_async("asyncio", script.asynchronous) == "async"
    assert len(script.calls) == 2


def test_it_has_a_name_for_logs() -> None:
    assert Script().__name__ == "script"
    assert perdure.Retry()(Script("x")).__name__ == "script"
