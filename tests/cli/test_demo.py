"""`perdure demo` itself: real processes, real sockets on 127.0.0.1, six seconds and a short overload once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import perdure
from perdure.cli.demo import demo
from perdure.cli.demo.arms import ARMS, NAIVE_ATTEMPTS, naive_loop, no_retry
from perdure.cli.demo.overload.plan import Plan
from perdure.cli.demo.process import ServerDied, ServerProcess
from perdure.cli.demo.script import Script
from perdure.cli.demo.traffic import Call, Halted, Traffic
from tests.cli.test_demo_page import result_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path, float]:
    out = tmp_path_factory.mktemp("demo") / "page.html"
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "perdure.cli.demo.overload.run.fitting_plan",
            lambda seed: Plan(seed, calm=0.5, fault=0.5, after=1.0),
        )
        result = CliRunner().invoke(demo, ["--seconds", "6", "--json", "--out", str(out)])
    return result, out, time.monotonic() - began


@pytest.fixture
def arms(short_run: tuple[Result, Path, float]) -> dict[str, dict[str, Any]]:
    arms: dict[str, dict[str, Any]] = json.loads(short_run[0].output)["arms"]
    return arms


def test_a_short_run_ends_well_and_in_time(short_run: tuple[Result, Path, float]) -> None:
    result, _, took = short_run
    assert result.exit_code == 0, result.output
    assert took < 40


def test_the_server_counts_what_the_clients_claim(
    short_run: tuple[Result, Path, float], arms: dict[str, dict[str, Any]]
) -> None:
    assert json.loads(short_run[0].output)["records_agree"] is True
    for figures in arms.values():
        server = figures["server"]
        assert server["sent"] == figures["attempts"]
        assert server["read"] + server["refused"] <= server["sent"]
        assert server["refused"] > 0


def test_every_arm_makes_the_same_calls_and_no_retry_makes_each_once(arms: dict[str, dict[str, Any]]) -> None:
    assert {figures["calls"] for figures in arms.values()} == {len(list(Script.build(1, 6).arrivals()))}
    assert {figures["unfinished"] for figures in arms.values()} == {0}
    assert arms["no retry"]["attempts"] == arms["no retry"]["calls"]


def test_perdure_sends_nothing_permanent_again_and_the_naive_loop_does(
    arms: dict[str, dict[str, Any]],
) -> None:
    assert arms["@perdure.retry"]["wrong_calls"] > 0
    assert arms["@perdure.retry"]["wrong_repeated"] == 0
    assert arms["Dependency"]["wrong_repeated"] == 0
    assert arms["naive loop"]["wrong_repeated"] > 0


def test_perdure_survives_blips_that_no_retry_does_not(arms: dict[str, dict[str, Any]]) -> None:
    assert arms["@perdure.retry"]["success"] > arms["no retry"]["success"]
    assert arms["@perdure.retry"]["by_phase"]["throttle"] > arms["naive loop"]["by_phase"]["throttle"]


def test_the_page_is_where_it_was_asked_for(short_run: tuple[Result, Path, float]) -> None:
    result, out, _ = short_run
    assert json.loads(result.output)["page"] == str(out)
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.count('class="curve arm1"') == 2 * 2  # two pictures for two widths; not in the overload
    assert text.count('class="curve arm3"') == 4 * 2


def test_the_overload_scene_follows_and_its_server_counts_what_the_clients_claim(
    short_run: tuple[Result, Path, float],
) -> None:
    overload = json.loads(short_run[0].output)["overload"]
    assert overload["records_agree"] is True
    assert list(overload["arms"]) == ["no retry", "@perdure.retry", "Dependency"]
    for figures in overload["arms"].values():
        assert figures["calls"] == len(list(Plan(1, calm=0.5, fault=0.5, after=1.0).arrivals()))
        assert figures["wasted"] <= figures["done"] <= figures["server"]["read"] <= figures["attempts"]
        assert len(figures["by_second"]) == 2


def test_the_server_of_the_overload_works_for_clients_that_have_left(
    short_run: tuple[Result, Path, float],
) -> None:
    overload = json.loads(short_run[0].output)["overload"]
    assert overload["arms"]["no retry"]["wasted"] > 0
    assert overload["arms"]["no retry"]["attempts"] == overload["arms"]["no retry"]["calls"]


def test_ctrl_c_before_the_overload_leaves_the_first_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seed: int) -> Plan:
        raise KeyboardInterrupt

    monkeypatch.setattr("perdure.cli.demo.overload.run.fitting_plan", interrupted)
    monkeypatch.setattr("perdure.cli.demo.run.run", lambda *_: result_of())
    result = CliRunner().invoke(demo, ["--json", "--no-page"])
    assert result.exit_code == 130
    assert json.loads(result.output)["overload"] is None


def test_the_overload_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.cli.demo.run.run", lambda *_: result_of())
    result = CliRunner().invoke(demo, ["--json", "--no-page", "--no-overload"])
    assert result.exit_code == 0
    assert json.loads(result.output)["overload"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "5"], "must be between 6 and 300 seconds, got 5"),
        (["--seconds", "301"], "must be between 6 and 300 seconds, got 301"),
        (["--seconds", "nan"], "must be between 6 and 300 seconds, got nan"),
        (["--seconds", "inf"], "must be between 6 and 300 seconds, got inf"),
        (["--no-page", "--out", "x.html"], "--out and --no-page exclude each other"),
        (["--out", "."], "is a directory, a file is needed"),
        (["--out", "no/such/folder/x.html"], "no such directory"),
    ],
)
def test_bad_options_end_it_before_it_begins(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(demo, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_it_with_what_was_measured_so_far(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    # Where the tests run in the background of a shell, SIGINT is ignored and a child inherits that.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from perdure.cli.demo import demo; demo()"
    )
    command = [sys.executable, "-c", program, "--seconds", "60", "--out", str(out)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONUNBUFFERED": "1",
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if line.strip().startswith("1 s"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "interrupted after" in rest
    assert "the two records agree" in rest
    assert "interrupted after" in out.read_text(encoding="utf-8")


def test_the_server_process_ends_with_its_block_whatever_happens_in_it() -> None:
    with pytest.raises(ZeroDivisionError), ServerProcess(Script.build(1, 6), ["a"]) as server:
        raise ZeroDivisionError
    assert server._process.poll() == 0


def test_a_server_that_dies_is_reported_and_not_waited_for() -> None:
    with ServerProcess(Script.build(1, 6), ["a"]) as server:
        server._process.kill()
        server._process.wait()
        with pytest.raises(ServerDied):
            server.start()


def test_a_run_halted_before_its_first_call_sends_nothing() -> None:
    with ServerProcess(Script.build(1, 6), [ARMS[1].name]) as server:
        traffic = Traffic(Script.build(1, 6), [ARMS[1]], server.ports)
        server.start()
        traffic.halt()
        traffic.start()
        assert traffic.wait(5)
        ledger = server.stop()
    assert traffic.calls == {ARMS[1].name: []}
    assert ledger == {ARMS[1].name: []}


def count_and_raise(error: BaseException) -> tuple[list[Call], Any]:
    sent: list[Call] = []

    def send(call: Call) -> None:
        sent.append(call)
        raise error

    return sent, send


def test_the_naive_loop_sends_whatever_failed_again_and_then_raises_it() -> None:
    sent, send = count_and_raise(LookupError("404"))
    with pytest.raises(LookupError):
        naive_loop(send)(Call(1, 0.0, None))
    assert len(sent) == NAIVE_ATTEMPTS


def test_no_retry_sends_once() -> None:
    sent, send = count_and_raise(LookupError("404"))
    with pytest.raises(LookupError):
        no_retry(send)(Call(1, 0.0, None))
    assert len(sent) == 1


def test_each_run_has_a_dependency_that_knows_nothing_yet() -> None:
    (wrap,) = (arm.wrap for arm in ARMS if arm.name == "Dependency")
    sent, send = count_and_raise(TimeoutError())
    first = wrap(send)
    for _ in range(20):
        with pytest.raises((TimeoutError, perdure.Refused)):
            first(Call(1, 0.0, None))
    sent.clear()
    with pytest.raises(TimeoutError):
        wrap(send)(Call(1, 0.0, None))
    assert sent


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_an_interruption_passes_every_arm_at_once(arm: Any) -> None:
    sent, send = count_and_raise(Halted())
    with pytest.raises(Halted):
        arm.wrap(send)(Call(1, 0.0, None))
    assert len(sent) == 1
