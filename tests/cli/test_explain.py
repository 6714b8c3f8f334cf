"""The plan, before anything is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perdure.cli.app import invoke

if TYPE_CHECKING:
    from pathlib import Path


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert invoke(args) == 0
    return capsys.readouterr().out


def plan_of(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(shown(capsys, "run", "--explain", "--json", *options, "--", "cmd"))
    return plan


def test_a_run_explains_itself_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "run", "--explain", "--timeout", "2s", "--", "touch", str(tmp_path / "ran file"))
    assert not (tmp_path / "ran file").exists()
    assert f"command        touch '{tmp_path}/ran file'" in text
    assert "before attempt 2: 50 ms expected, 50 ms median, 100 ms at most" in text
    assert "timeout        2 s for each attempt, then TERM to all its processes, and KILL after 5 s" in text
    assert "amplification  4 x the load in an outage" in text


@pytest.mark.parametrize(
    ("options", "worst"),
    [
        (("--timeout", "2s", "--wait", "const:1s", "--grace", "0"), 4 * 2 + 3 * 1),
        (("--timeout", "2s", "--wait", "const:1s", "--grace", "5s"), 4 * (2 + 5) + 3 * 1),
        (("--timeout", "2s", "--wait", "const:1s", "--grace", "1s", "--deadline", "4s"), 4 + 2 + 1),
        (("--timeout", "2s", "--attempts", "unlimited", "--deadline", "10s"), 10 + 2 + 5),
        (("--wait", "const:1s"), None),
    ],
)
def test_the_worst_case_counts_waits_timeouts_and_graces(
    options: tuple[str, ...], worst: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan_of(capsys, *options)["run"]["worst_case_elapsed"] == worst


def test_the_plan_as_json_has_the_policy_and_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "--retry-exit", "75,80-81", "--stop-match", "quota", "--attempts", "2")
    assert plan["schema"] == "perdure.explain/1"
    assert plan["plan"]["attempts"] == 2
    assert (plan["run"]["retry_exit"], plan["run"]["stop_match"]) == ([75, 80, 81], ["quota"])


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ((), ["no-deadline", "no-budget"]),
        (("--timeout", "1s"), ["no-budget"]),
        (("--timeout", "1s", "--wait", "const:1s"), ["no-budget", "no-jitter"]),
        (("--attempts", "unlimited", "--deadline", "forever"), ["unbounded", "no-budget"]),
        (("--attempts", "1", "--timeout", "1s"), []),
        (("--timeout", "1s", "--budget", "b"), []),
        (("--timeout", "1s", "--breaker", "b"), ["no-budget"]),
    ],
)
def test_warnings_name_what_is_dangerous(
    options: tuple[str, ...], codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [one["code"] for one in plan_of(capsys, *options)["plan"]["warnings"]] == codes


def test_the_plan_says_what_is_shared(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--breaker",
        "b",
        "--breaker-failures",
        "3",
        "--budget",
        "r",
        "--lock",
        "l",
        "--lock-wait",
        "1m",
    )
    text = shown(capsys, "run", "--explain", *options, "--", "cmd")
    assert "breaker        'b', opens after 3 failures in a row, for 1 min at first" in text
    assert "budget         'r', of which each retry takes 1 and each success gives 0.1" in text
    assert "lock           'l', waits 1 min for it" in text
    assert "75 if refused and not started" in text
    plan = plan_of(capsys, *options)["run"]["shared"]
    assert (plan["breaker"], plan["budget"], plan["lock"], plan["lock_wait"]) == ("b", "r", "l", 60)
    assert plan_of(capsys)["run"]["shared"] is None


def test_explain_shows_the_policies_of_a_file_and_the_presets_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(shown(capsys, "explain", "--json"))["policies"].keys() == {
        "interactive",
        "background",
        "patient",
    }
    (tmp_path / "perdure.toml").write_text(
        "[policies.sync]\nattempts = 3\n[dependencies.pay.retry]\nattempts = 2\n"
    )
    policies = json.loads(shown(capsys, "explain", "--json"))["policies"]
    assert {name: plan["attempts"] for name, plan in policies.items()} == {"sync": 3, "pay": 2}
    assert shown(capsys, "explain", "perdure.toml", "--policy", "pay").startswith("[pay]\n")


def test_explain_refuses_a_file_without_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.toml").write_text("")
    assert invoke(["explain", str(tmp_path / "empty.toml")]) == 2
    assert "holds no policy" in capsys.readouterr().err


def test_explain_names_the_policies_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(["explain", "--policy", "nope"]) == 2
    assert "--policy must be one of interactive, background, patient, got 'nope'" in capsys.readouterr().err


def test_explain_shows_a_dependency_with_all_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "perdure.toml"
    file.write_text("[dependencies.payments.breaker]\nfailures = 2\n\n[policies.orders]\nattempts = 2\n")
    text = shown(capsys, "explain", str(file))
    assert "[orders]" in text
    assert "breaker        failures 2," in text
    assert "low-breaker: 2 failures open the breaker" in text
    alone = shown(capsys, "explain", str(file), "--policy", "payments", "--json")
    assert list(json.loads(alone)["policies"]) == ["payments"]
    assert json.loads(alone)["policies"]["payments"]["amplification"]["budgeted"] is not None
