"""The frame: help, version, subcommands that load when used, and no click."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from perdure.cli.app import COMMANDS, cli, invoke
from tests.cli.processes import BOUND, Perdure


def test_help_lists_every_subcommand_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_loads_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name, "--help"]) == 0
    assert f"perdure {name}" in capsys.readouterr().out


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perdure ")


def test_an_unknown_subcommand_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["runn"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "perdure: no such command 'runn'; did you mean 'run'?"


@pytest.mark.parametrize(
    ("name", "words"),
    [("gte", "; did you mean 'get'?"), ("explian", "; did you mean 'explain'?"), ("curl", "")],
)
def test_a_subcommand_that_is_close_is_suggested(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([name]) == 2
    assert capsys.readouterr().err == f"perdure: no such command {name!r}{words}\n"


def test_every_option_of_run_has_help() -> None:
    run = cli.get_command(cli.make_context("perdure", ["run"]), "run")
    assert run is not None
    assert all(param.help for param in run.params if isinstance(param, click.Option))


@pytest.mark.parametrize(
    ("command", "extra"), [(("run", "--", "true"), "cli"), (("get", "http://127.0.0.1:1/x"), "get")]
)
def test_without_click_one_line_says_what_to_install(
    perdure: Perdure, command: tuple[str, ...], extra: str
) -> None:
    (perdure.cwd / "click.py").write_text("raise ModuleNotFoundError('no click', name='click')\n")
    env = {"PYTHONPATH": f"{perdure.cwd}:{perdure.env['PYTHONPATH']}"}
    ended = perdure(*command, env=env)
    assert ended.returncode == 125
    assert ended.stderr.decode().splitlines() == [
        f'perdure: the command line needs click; install it with: pip install "perdure[{extra}]"'
    ]


def test_a_run_that_succeeds_at_once_loads_nothing_slow(perdure: Perdure) -> None:
    """Only what start-up needs; what these cost is most of what a fast command would wait for."""
    program = (
        "import sys\nfrom perdure.cli import main\n"
        "assert main(['run', '--', 'true']) == 0\nprint(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=perdure.env,
        cwd=perdure.cwd,
        capture_output=True,
        timeout=BOUND,
        check=True,
    )
    slow = {
        "httpx",
        "asyncio",
        "json",
        "logging",
        "multiprocessing",
        "pathlib",
        "rich",
        "socket",
        "subprocess",
        "tempfile",
        "tomllib",
    }
    assert not slow & set(done.stdout.decode().split())


def test_an_error_inside_perdure_is_125_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_given: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr("perdure.cli.settle.settle", broken)
    assert invoke(["run", "--", "true"]) == 125
    assert (
        capsys.readouterr().err
        == "perdure: internal error, RuntimeError: bug (PERDURE_DEBUG=1 shows where)\n"
    )
