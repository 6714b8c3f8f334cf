"""On a terminal: the status line, the terminal lent to the command and put back, Ctrl-C and Ctrl-Z.

Each test makes a pseudo terminal of its own and runs perdure in a session that has it, as a login shell would.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from tests.cli.processes import BOUND, Perdure, is_running, python, read_some, shell, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ERASE = b"\r\x1b[2K"
IN_FRONT = "import os, sys; sys.exit(os.tcgetpgrp(0) != os.getpgrp())"


class Screen:
    """A terminal with perdure on it."""

    def __init__(self, perdure: Perdure) -> None:
        self.perdure = perdure
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.process: subprocess.Popen[bytes] | None = None
        self._ahead = ""

    def run(self, *args: str, env: dict[str, str] | None = None, **streams: int) -> subprocess.Popen[bytes]:
        """Start ``perdure run`` as the leader of a session with this terminal; it is in the foreground."""
        program = (
            "import fcntl, os, sys, termios\n"
            "os.setsid()\n"
            f"fcntl.ioctl({self.theirs}, termios.TIOCSCTTY, 0)\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'perdure.cli', 'run', *sys.argv[1:]])\n"
        )
        given = dict.fromkeys(("stdin", "stdout", "stderr"), self.theirs) | streams
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *args],
            env=self.perdure.env | {"TERM": "xterm"} | (env or {}),
            cwd=self.perdure.cwd,
            pass_fds=(self.theirs,),
            **given,
        )
        return self.process

    def see(self, wanted: str) -> str:
        """Read until this is on the terminal; what came after it is left for the next look."""
        while wanted not in self._ahead:
            self._ahead += read_some(self.ours, f"{wanted!r} did not come; {self._ahead!r} did").decode()
        seen, found, self._ahead = self._ahead.partition(wanted)
        return seen + found

    def type(self, keys: str) -> None:
        r"""Press keys; \x03 is Ctrl-C."""
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        """Wait for the end; a death by signal counts as the shell would show it."""
        assert self.process is not None
        code = self.process.wait(BOUND)
        return code if code >= 0 else 128 - code

    def rest(self) -> str:
        """Everything that was written since the last look."""
        os.write(self.theirs, b"\x04END")
        return self.see("\x04END")

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(BOUND)
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def screen(perdure: Perdure) -> Iterator[Screen]:
    screen = Screen(perdure)
    yield screen
    screen.close()


def test_the_wait_is_counted_down_and_the_line_is_gone_in_the_end(screen: Screen) -> None:
    screen.run(
        "--wait", "const:300ms", "--attempts", "2", "--deadline", "1m", "--", "false", env={"NO_COLOR": "1"}
    )
    seen = screen.see("gave up")
    assert "perdure: attempt 2 of 2 in 0.3 s, deadline in 1 min (Ctrl-C stops)" in seen
    assert "perdure: attempt 2 of 2 in 0.2 s" in seen
    after = seen[seen.rindex("(Ctrl-C stops)") + len("(Ctrl-C stops)") :]
    assert after.startswith(ERASE.decode()), "erased before the next line is written"
    assert screen.end() == 1


def test_no_progress_leaves_only_sentences(screen: Screen) -> None:
    screen.run(
        "--no-progress", "--wait", "const:200ms", "--attempts", "2", "--", "false", env={"NO_COLOR": "1"}
    )
    assert screen.end() == 1
    seen = screen.rest()
    assert "Ctrl-C" not in seen
    assert "\x1b[2K" not in seen


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_is_only_for_those_who_want_it(screen: Screen, env: dict[str, str], *, coloured: bool) -> None:
    screen.run("--wait", "const:0", "--attempts", "2", "--", "true", "x", env=env)
    screen.end()
    screen.run("--attempts", "1", "--", "false", env=env)
    screen.end()
    assert ("\x1b[2m" in screen.rest()) is coloured


def test_the_command_has_the_terminal_and_it_comes_back(screen: Screen) -> None:
    """In the foreground, and after it the modes it changed are as before."""
    program = f"import termios, tty; tty.setraw(0); {IN_FRONT}"
    screen.run("--attempts", "1", "--", *python(program))
    assert screen.end() == 0
    assert termios.tcgetattr(screen.theirs) == screen.before


def test_a_command_can_ask_and_be_answered_in_every_attempt(screen: Screen) -> None:
    screen.run(
        "--wait", "const:0", "--attempts", "2", "--", *shell("printf 'name? '; read n; echo hello $n; exit 1")
    )
    for name in ("ann", "bob"):
        screen.see("name? ")
        screen.type(f"{name}\n")
        screen.see(f"hello {name}")
    assert screen.end() == 1


def test_all_streams_stay_a_terminal_for_the_command(screen: Screen) -> None:
    for options in ((), ("--stop-match", "never")):
        screen.run("--attempts", "1", *options, "--", *shell("test -t 0 && test -t 1 && test -t 2"))
        assert screen.end() == 0, options


def test_a_captured_terminal_has_the_size_of_the_real_one(screen: Screen) -> None:
    termios.tcsetwinsize(screen.theirs, (33, 97))
    screen.run(
        "--attempts",
        "1",
        "--stop-match",
        "never",
        "--",
        *python("import os; print(*os.get_terminal_size(1))"),
    )
    assert screen.end() == 0
    assert "97 33" in screen.rest()


def test_ctrl_c_in_a_command_that_has_the_terminal_ends_it_all(screen: Screen) -> None:
    screen.run("--wait", "const:0", "--", *shell("echo $$ ready; exec sleep 60"))
    pid = int(screen.see("ready").split()[-2])
    screen.type("\x03")
    assert screen.end() == 130
    assert not is_running(pid)
    assert "perdure: stopped by INT during attempt 1 of 4" in screen.rest()


def test_ctrl_c_ends_a_wait(screen: Screen) -> None:
    screen.run("--wait", "const:1h", "--", "false")
    screen.see("(Ctrl-C stops)")
    screen.type("\x03")
    assert screen.end() == 130
    assert "perdure: stopped by INT before attempt 2 of 4" in screen.rest()


def test_ctrl_z_stops_perdure_with_its_command_and_both_go_on(screen: Screen) -> None:
    """A shell would see perdure stopped; continued, the command has the terminal again."""
    program = f"print('ready', flush=True); input(); {IN_FRONT}"
    outer = (
        "import os, signal, sys\n"
        "pid = os.posix_spawn(sys.executable, [sys.executable, '-m', 'perdure.cli', 'run', *sys.argv[1:]],\n"
        "                     os.environ, setpgroup=0)\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "os.tcsetpgrp(0, pid)\n"
        "_, status = os.waitpid(pid, os.WUNTRACED)\n"
        "print('stopped', os.WIFSTOPPED(status), os.tcgetpgrp(0) == pid, flush=True)\n"
        "os.tcsetpgrp(0, pid)\n"
        "os.killpg(pid, signal.SIGCONT)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print('ended', os.waitstatus_to_exitcode(status), flush=True)\n"
    )
    session = (
        f"import fcntl, os, sys, termios\nos.setsid()\nfcntl.ioctl({screen.theirs}, termios.TIOCSCTTY, 0)\n"
        f"sys.argv[1:] = sys.argv[2:]\nexec({outer!r})\n"
    )
    screen.process = subprocess.Popen(
        [sys.executable, "-c", session, "-", "--attempts", "1", "--", *python(program)],
        env=screen.perdure.env,
        cwd=screen.perdure.cwd,
        stdin=screen.theirs,
        stdout=screen.theirs,
        stderr=screen.theirs,
        pass_fds=(screen.theirs,),
    )
    screen.see("ready")
    screen.type("\x1a")
    screen.see("stopped True True")
    screen.type("\n")
    screen.see("ended 0")


def test_a_pager_behind_perdure_keeps_the_keys(screen: Screen) -> None:
    """With stdout elsewhere the terminal is lent only when the command asks for it."""
    ours, theirs = os.pipe()
    screen.run("--attempts", "1", "--", *python(f"{IN_FRONT[:-1].replace('!=', '==')})"), stdout=theirs)
    assert screen.end() == 0, "the command was not put in the foreground"
    screen.run("--attempts", "1", "--", *python(f"input(); {IN_FRONT}"), stdout=theirs)
    screen.type("x\n")
    assert screen.end() == 0, "a command that reads the terminal was"
    os.close(ours)
    os.close(theirs)


def test_a_half_line_of_the_command_is_not_written_over(screen: Screen) -> None:
    screen.run("--no-stdin", "--attempts", "1", "--", *shell("printf half; exit 1"), env={"NO_COLOR": "1"})
    screen.end()
    assert re.search(r"half\r?\nperdure: attempt 1 of 1 exited 1", screen.rest())


def test_a_command_that_is_quiet_for_a_second_gets_a_status_line(screen: Screen) -> None:
    screen.run(
        "--no-stdin", "--timeout", "1h", "--", *shell("echo begun; exec sleep 60"), env={"NO_COLOR": "1"}
    )
    screen.see("perdure: attempt 1 of 4 has run for 1 s, timeout in 59 min")
    assert screen.process is not None
    screen.process.send_signal(signal.SIGTERM)
    assert screen.end() == 143
    assert f"{ERASE.decode()}perdure: stopped by TERM during attempt 1 of 4" in screen.rest()


def test_without_job_control_nothing_is_lent(screen: Screen) -> None:
    """The terminal on stdin is not the one of this session."""
    process = screen.perdure.start("run", "--attempts", "1", "--", *shell("test -t 0"), stdin=screen.theirs)
    assert process.wait(BOUND) == 0


def test_the_end_of_the_terminal_ends_the_run(screen: Screen) -> None:
    screen.run("--wait", "const:0", "--", *shell("echo $$ ready; exec sleep 60"))
    pid = int(screen.see("ready").split()[-2])
    os.close(screen.theirs)
    os.close(screen.ours)
    screen.ours, screen.theirs = os.pipe()
    screen.end()
    wait_for(lambda: not is_running(pid), "the command outlived its terminal")


def test_a_timeout_on_a_terminal_is_a_timeout_and_no_key(screen: Screen) -> None:
    """The command dies of TERM with the terminal in its hands, and is tried again."""
    screen.run(
        "--wait",
        "const:0",
        "--timeout",
        "300ms",
        "--attempts",
        "2",
        "--",
        "sleep",
        "60",
        env={"NO_COLOR": "1"},
    )
    assert screen.end() == 124
    assert re.search(r"attempt 2 of 2 timed out after [\d.]+ m?s; gave up after 2 attempts", screen.rest())
