"""The built-in log lines: what they say, at which level, how often, and that logging stays unloaded."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

import perdure
from perdure import Fault, FaultKind, Retry, faults
from perdure.testing import Script, VirtualClock, took
from perdure.testing.virtual import WALL
from tests.engine.model import Leave
from tests.harness import COLOURS, play

POLICY = Retry(backoff=perdure.Constant(1), name="stock.fetch")
OWN = (
    *("timestamp", "operation", "attempt", "delay_ms", "error", "strategy", "outcome", "total_duration_ms"),
    *("stop_reason", "call_id"),
)


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="perdure")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.outcome) for record in caplog.records]  # type: ignore[attr-defined]


def fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in OWN}


@pytest.mark.parametrize("colour", COLOURS)
def test_retries_and_a_recovery_are_told_at_info(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    play(colour, POLICY, ConnectionError(), ConnectionError(), "ok")
    assert lines(caplog) == [("INFO", "retry"), ("INFO", "retry"), ("INFO", "success")]
    assert {record.name for record in caplog.records} == {"perdure"}


@pytest.mark.parametrize("colour", COLOURS)
def test_the_final_failure_is_told_at_error_once(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    play(colour, POLICY.replace(attempts=2), *[ConnectionError()] * 2)
    assert lines(caplog) == [("INFO", "retry"), ("ERROR", "exhausted")]


@pytest.mark.parametrize("colour", COLOURS)
def test_a_call_that_works_is_not_told(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    play(colour, POLICY, "ok")
    assert not caplog.records


@pytest.mark.parametrize("colour", COLOURS)
def test_a_base_exception_is_not_told(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    play(colour, POLICY, Leave())
    assert not caplog.records


def test_what_says_nothing_about_the_dependency_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    play("sync", POLICY, perdure.ShuttingDown())
    assert lines(caplog) == [("WARNING", "exhausted")]


@pytest.mark.parametrize("colour", COLOURS)
def test_every_line_carries_all_fields(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    play(
        colour,
        POLICY.replace(attempts=2),
        took(0.25, ConnectionResetError(104, "gone")),
        took(0.5, TimeoutError("late")),
    )
    retry, end = (fields(record) for record in caplog.records)
    at = {"operation": "stock.fetch", "strategy": "constant, none jitter", "call_id": retry["call_id"]}
    assert retry == {
        **at,
        "timestamp": datetime.fromtimestamp(WALL + 0.25, UTC).isoformat(timespec="milliseconds"),
        "attempt": "1 of 2",
        "delay_ms": 1000,
        "error": {"code": "ECONNRESET", "message": "[Errno 104] gone"},
        "outcome": "retry",
        "total_duration_ms": pytest.approx(250),
        "stop_reason": None,
    }
    assert end == {
        **at,
        "timestamp": datetime.fromtimestamp(WALL + 1.75, UTC).isoformat(timespec="milliseconds"),
        "attempt": "2 of 2",
        "delay_ms": None,
        "error": {"code": "TimeoutError", "message": "late"},
        "outcome": "exhausted",
        "total_duration_ms": pytest.approx(1750),
        "stop_reason": "attempts",
    }
    assert retry["call_id"]


def test_a_recovery_carries_no_error(caplog: pytest.LogCaptureFixture) -> None:
    play("sync", POLICY, ConnectionError(), "ok")
    recovered = fields(caplog.records[-1])
    assert (recovered["attempt"], recovered["error"], recovered["outcome"]) == ("2 of 4", None, "success")


def test_unlimited_attempts_are_called_so(caplog: pytest.LogCaptureFixture) -> None:
    play("sync", POLICY.replace(attempts=None), ConnectionError(), "ok")
    assert fields(caplog.records[0])["attempt"] == "1 of unlimited"


def test_the_messages_say_it_for_people(caplog: pytest.LogCaptureFixture) -> None:
    play("sync", POLICY.replace(attempts=2), ConnectionError("a"), ConnectionError("b"))
    retry, end = (record.getMessage() for record in caplog.records)
    assert retry == "stock.fetch: attempt 1 of 2 failed (connection lost); next in 1 s"
    assert (
        end
        == "stock.fetch: gave up after 2 attempts in 1 s: no attempts left (attempts=2); last: connection lost"
    )


class Coded(ConnectionError):
    """An error as client libraries make them, with a code under some name."""

    def __init__(self, **codes: object) -> None:
        super().__init__("coded")
        self.__dict__.update(codes)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Coded(status_code=503), 503),
        (Coded(sqlstate="40001"), "40001"),
        (Coded(code="slow_down"), "slow_down"),
        (ConnectionRefusedError(111, "no"), "ECONNREFUSED"),
        (OSError(99999, "odd"), 99999),
        (ConnectionError("bare"), "ConnectionError"),
    ],
    ids=repr,
)
def test_the_code_of_an_error_is_the_most_telling_one(
    error: Exception, code: object, caplog: pytest.LogCaptureFixture
) -> None:
    play("sync", POLICY.replace(attempts=1), error)
    assert fields(caplog.records[-1])["error"]["code"] == code


# -- how often -----------------------------------------------------------------------------------------


def fail(name: str, error: Exception | None = None) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is
        POLICY.replace(name=name, attempts=1).call(Script(error or ConnectionError()))


def test_final_failures_are_told_once_per_second(caplog: pytest.LogCaptureFixture) -> None:
    with VirtualClock() as clock:
        for _ in range(40):
            fail("a")
            clock.advance(0.125)
    assert len(caplog.records) == 5


def test_the_second_of_another_clock_is_another_second(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with VirtualClock() as clock:
            clock.advance(0.5)
            fail("a")
    assert len(caplog.records) == 3


def test_each_operation_and_each_reason_has_its_own_second(caplog: pytest.LogCaptureFixture) -> None:
    with VirtualClock():
        for _ in range(3):
            fail("a")
            fail("b")
            fail("a", ValueError("a bug"))
    told = [(record.operation, record.stop_reason) for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [("a", "attempts"), ("b", "attempts"), ("a", "permanent")]


def test_a_line_that_nobody_wants_does_not_use_up_the_second(caplog: pytest.LogCaptureFixture) -> None:
    with VirtualClock():
        caplog.set_level(logging.CRITICAL, logger="perdure")
        fail("a")
        caplog.set_level(logging.ERROR, logger="perdure")
        fail("a")
    assert lines(caplog) == [("ERROR", "exhausted")]


def test_a_failure_that_passes_through_two_layers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    inner = POLICY.replace(attempts=2, name="inner")(Script(*[ConnectionError()] * 2))
    with VirtualClock(), pytest.raises(ConnectionError):
        POLICY.replace(name="outer").call(lambda: inner())
    assert [record.operation for record in caplog.records if record.levelname == "ERROR"] == ["inner"]  # type: ignore[attr-defined]


def test_many_operations_do_not_grow_the_memory_of_lines() -> None:
    from perdure.engine import logs

    with VirtualClock():
        for number in range(1200):
            fail(f"operation {number}")
    assert len(logs._last) <= 1000


# -- what must not go wrong ----------------------------------------------------------------------------


class Trap(ConnectionError):
    """Properties that raise when a part is missing, as some client libraries have them."""

    @property
    def status_code(self) -> int:
        raise RuntimeError("the response has not been set")

    code = sqlstate = status_code

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("colour", COLOURS)
def test_an_error_that_cannot_be_read_is_still_retried_and_told(
    colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults.register(Trap, Fault(FaultKind.TRANSIENT))
    assert play(colour, POLICY, Trap(), "ok").value == "ok"
    assert fields(caplog.records[0])["error"] == {"code": "Trap", "message": "(cannot be printed)"}


@pytest.mark.parametrize("colour", COLOURS)
def test_a_filter_that_raises_changes_nothing(colour: str) -> None:
    class Broken(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise LookupError(record.name)

    broken, log = Broken(), logging.getLogger("perdure")
    log.addFilter(broken)
    try:
        assert play(colour, POLICY, ConnectionError(), "ok").value == "ok"
        assert isinstance(play(colour, POLICY.replace(attempts=1), ConnectionError()).error, ConnectionError)
    finally:
        log.removeFilter(broken)


def test_the_logger_has_one_null_handler_however_often_it_is_used() -> None:
    for _ in range(3):
        play("sync", POLICY, ConnectionError(), "ok")
    null = [one for one in logging.getLogger("perdure").handlers if isinstance(one, logging.NullHandler)]
    assert len(null) == 1


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )


FAILING = """
import sys, perdure
from perdure.testing import no_waits

def broken():
    raise ConnectionError("no")

with no_waits():
    for policy in (perdure.Retry(), perdure.Retry(attempts=1)):
        try:
            policy.call(broken)
        except ConnectionError:
            pass
"""


def test_a_program_without_logging_gets_none_from_failing_calls() -> None:
    done = run_program(FAILING + "print('logging' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_program_that_configured_nothing_sees_nothing_on_its_screen() -> None:
    assert run_program("import logging\n" + FAILING).stderr == ""


def test_a_program_that_configured_logging_sees_the_lines() -> None:
    done = run_program("import logging; logging.basicConfig(level=logging.INFO)\n" + FAILING)
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["INFO"] * 3 + [
        "ERROR"
    ]  # the second within a second
    assert "no attempts left (attempts=4); last: connection lost" in done.stderr


def test_logging_that_is_imported_later_is_found() -> None:
    done = run_program(FAILING + "import logging; logging.basicConfig(level=logging.ERROR)\n" + FAILING)
    assert "gave up after 4 attempts" in done.stderr
