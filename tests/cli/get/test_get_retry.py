"""What is tried again, how often and when; how it ends, in words and as exit codes."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from perdure.cli.get import asking
from tests.cli.get.files import CONTENT, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.get.conftest import Get
from tests.cli.get.files import Files


class Jump:
    """The time, two hours later from when something is so."""

    def __init__(self, when: Callable[[], bool]) -> None:
        self._when = when
        self._later = False

    def monotonic(self) -> float:
        self._later = self._later or self._when()
        return time.monotonic() + 7200 * self._later


def test_a_server_error_is_tried_again_after_a_wait(get: Get, server: Files) -> None:
    server.script = [Step(status=503), Step(status=500)]
    done = get("--wait", "const:2s", server.url())
    assert done.code == 0
    assert done.waits == [2, 2]
    first, second, last = done.err.splitlines()
    assert first.startswith("perdure: attempt 1 of 4 got HTTP 503 Service Unavailable after ")
    assert first.endswith("; next in 2 s")
    assert second.startswith("perdure: attempt 2 of 4 got HTTP 500 Internal Server Error after ")
    assert last.startswith("perdure: saved file.bin")


def test_a_closed_connection_is_tried_again(get: Get, server: Files) -> None:
    server.script = [Step(close=True)]
    assert get(server.url()).code == 0
    assert len(server.seen) == 2


def test_it_gives_up_after_so_many_attempts(get: Get, server: Files) -> None:
    server.always = Step(status=502)
    done = get("--attempts", "3", "--json", server.url())
    assert done.code == 5
    assert len(server.seen) == 3
    assert get.names() == set()
    assert done.report["stop"] == "attempts"
    assert done.err.splitlines()[-1].startswith("perdure: attempt 3 of 3 got HTTP 502 Bad Gateway after ")
    assert "; gave up in " in done.err.splitlines()[-1]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 501])
def test_what_no_retry_mends_ends_at_once_with_exit_4(get: Get, server: Files, status: int) -> None:
    server.always = Step(status=status)
    done = get(server.url())
    assert done.code == 4
    assert len(server.seen) == 1
    assert f"HTTP {status}" in done.err
    assert done.err.rstrip().endswith("; not retried")
    assert get.names() == set()


def test_nobody_listening_is_tried_again(get: Get) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        done = get("--attempts", "2", "--json", f"http://127.0.0.1:{port}/file.bin")
    assert done.code == 5
    assert len(done.waits) == 1
    assert "refused" in done.report["attempts"][0]["reason"]
    assert done.report["attempts"][0]["connected"] is None


def test_the_delay_that_a_server_asks_for_is_kept_to(get: Get, server: Files) -> None:
    server.script = [Step(status=429, headers={"Retry-After": "20"})]
    done = get("--json", server.url())
    assert done.code == 0
    assert 20 <= done.waits[0] <= 30
    assert done.report["attempts"][0]["hint"] == 20
    assert done.report["attempts"][0]["fault"] == "throttled"
    assert done.report["attempts"][0]["delay"] == pytest.approx(done.waits[0])


@pytest.mark.parametrize(("asked", "options"), [("301", ()), ("20", ("--max-retry-after", "19s"))])
def test_a_longer_delay_ends_the_run_and_says_when_to_come_back(
    get: Get, server: Files, asked: str, options: tuple[str, ...]
) -> None:
    server.always = Step(status=503, headers={"Retry-After": asked})
    done = get("--json", *options, server.url())
    assert done.code == 5
    assert done.waits == []
    assert len(server.seen) == 1
    assert done.report["stop"] == "hint"
    assert done.report["retry_after"] == float(asked)
    assert "the server asks for" in done.err
    assert "more than --max-retry-after" in done.err


def test_a_quota_that_is_used_up_is_not_tried_again(get: Get, server: Files) -> None:
    """The code in the body outranks the status."""
    body = json.dumps({"error": {"code": "insufficient_quota"}}).encode()
    server.always = Step(status=429, body=body, headers={"Content-Type": "application/json"})
    assert get(server.url()).code == 4
    assert len(server.seen) == 1


def test_a_wait_past_the_deadline_is_not_begun(get: Get, server: Files) -> None:
    server.always = Step(status=503)
    done = get("--wait", "const:1h", "--deadline", "1m", "--json", server.url())
    assert done.code == 124
    assert len(server.seen) == 1
    assert done.waits == []
    assert done.report["stop"] == "deadline"
    assert "the next wait, 1 h, would pass the deadline of 1 min" in done.err


@pytest.mark.parametrize("ahead", [-5.0, 0.05])
def test_the_end_of_an_outer_run_is_kept_to(
    get: Get, server: Files, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setenv("PERDURE_DEADLINE", str(time.time() + ahead))
    server.always = Step(hold=threading.Event())
    assert get("--deadline", "1h", server.url()).code == 124


def test_a_deadline_from_the_environment(get: Get, server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DEADLINE", "50ms")
    server.always = Step(hold=threading.Event())
    assert get(server.url()).code == 124
    monkeypatch.setenv("PERDURE_DEADLINE", "soon")
    assert get(server.url()).code == 2


def test_an_attempt_is_cut_by_its_timeout_and_goes_on_from_there(
    get: Get, server: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [Step(pause=threading.Event())]
    monkeypatch.setattr(asking, "time", Jump(lambda: get.part_size() == len(CONTENT) // 2))
    done = get("--timeout", "1h", "--stall", "2h", "--json", server.url())
    assert done.code == 0
    assert get.file() == CONTENT
    assert server.ranges == [None, f"bytes={len(CONTENT) // 2}-"]
    assert done.report["attempts"][0]["timed_out"] is True
    assert "attempt 1 of 4 timed out after 1 h (131 kB came); next in" in done.err


@pytest.mark.parametrize("options", [("--timeout", "50ms"), ("--deadline", "50ms")])
def test_a_server_that_says_nothing_ends_with_exit_124(
    get: Get, server: Files, options: tuple[str, str]
) -> None:
    server.always = Step(hold=threading.Event())
    done = get("--attempts", "1", *options, server.url())
    assert done.code == 124, done.err
    assert "timed out" in done.err
    assert get.names() == set()


def test_the_deadline_cuts_a_body(get: Get, server: Files) -> None:
    server.always = Step(pause=threading.Event())
    done = get("--deadline", "100ms", server.url())
    assert done.code == 124
    assert len(server.seen) <= 1
    assert "the deadline of 100 ms is over" in done.err
    assert "file.bin" not in get.names()


def test_a_body_that_drips_is_cut_all_the_same(get: Get, server: Files) -> None:
    server.always = Step(drip=0.001)
    done = get("--attempts", "1", "--timeout", "50ms", server.url())
    assert done.code == 124
    assert "file.bin" not in get.names()


def test_a_stall_is_cut(get: Get, server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(hold=threading.Event())
    server.script = [step]
    monkeypatch.setattr(asking, "time", Jump(step.reached.is_set))
    done = get("--stall", "1h", server.url())
    assert done.code == 0
    assert "nothing came for 1 h" in done.err
    assert get.file() == CONTENT


def test_unlimited_attempts_end_by_success(get: Get, server: Files) -> None:
    server.script = [Step(status=503) for _ in range(20)]
    done = get("--attempts", "unlimited", "--deadline", "forever", server.url())
    assert done.code == 0
    assert len(server.seen) == 21
    assert done.err.startswith("perdure: attempt 1 got")


def test_a_policy_of_the_file_is_used(get: Get, server: Files) -> None:
    (get.folder / "perdure.toml").write_text("[policies.mine]\nattempts = 2\n")
    server.always = Step(status=503)
    done = get("--policy", "mine", "--wait", "const:3", server.url())
    assert (done.code, done.waits) == (5, [3])


# For programs


def test_the_report_has_all_fields(get: Get, server: Files) -> None:
    server.script = [Step(status=503)]
    report = get("--json", "--wait", "const:0", server.url()).report
    attempts = report.pop("attempts")
    assert report.pop("elapsed") > 0
    assert report.pop("started_at") > 1e9
    assert report == {
        "schema": "perdure.get/1",
        "urls": [server.url()],
        "method": "GET",
        "output": "file.bin",
        "ok": True,
        "exit": 0,
        "stop": "success",
        "why": None,
        "signal": None,
        "retry_after": None,
        "size": len(CONTENT),
        "received": len(CONTENT),
        "resumed_from": 0,
        "checksum": None,
        "idempotency_key": None,
        "policy": {
            "attempts": 4,
            "backoff": "Constant(delay=0.0, jitter='none')",
            "deadline": None,
            "attempt_timeout": None,
            "hint_cap": 300,
        },
        "attempts_made": 2,
    }
    first, second = attempts
    assert (
        0
        <= first["started"]
        < first["connected"]
        < first["first_byte"]
        <= first["started"] + first["duration"]
    )
    assert (first["status"], first["result"], first["fault"]) == (503, "failed", "ambiguous")
    assert (second["status"], second["result"], second["fault"]) == (200, "ok", None)
    assert (first["attempt"], second["attempt"], first["round"], second["round"]) == (1, 2, 1, 2)


def test_events_are_told_as_they_happen(get: Get, server: Files) -> None:
    server.script = [Step(cut=1000), Step(status=503), Step(span="bytes 0-9/10")]
    assert get("--events", "log.jsonl", server.url()).code == 0
    told = [json.loads(line) for line in (get.folder / "log.jsonl").read_text().splitlines()]
    assert {one["schema"] for one in told} == {"perdure.events/1"}
    assert [one["name"] for one in told] == [
        "call.start",
        *("attempt.start", "attempt.end", "retry.scheduled"),
        *("attempt.start", "attempt.end", "retry.scheduled"),
        *("attempt.start", "download.restarted", "attempt.end"),
        *("attempt.start", "attempt.end", "call.end"),
    ]


def test_quiet_says_nothing_and_the_report_goes_to_its_file(get: Get, server: Files) -> None:
    server.always = Step(status=404)
    done = get("--quiet", "--report", "report.json", server.url())
    assert (done.code, done.err, done.out) == (4, "", b"")
    assert json.loads((get.folder / "report.json").read_text())["exit"] == 4
