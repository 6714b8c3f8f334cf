"""As a process of its own: Ctrl-C and other signals, a reader that goes away, a terminal, a missing library."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.cli.get.files import CONTENT, Step
from tests.cli.processes import BOUND, Perdure, read_some, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.get.files import Files

HALF = len(CONTENT) // 2


@pytest.fixture
def here(perdure: Perdure) -> Path:
    for name in [name for name in perdure.env if name.lower().endswith("_proxy")]:
        del perdure.env[name]
    return perdure.cwd


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_what_is_stopped_keeps_its_part_and_says_how_to_go_on(
    perdure: Perdure, here: Path, server: Files
) -> None:
    server.script = [Step(pause=threading.Event())]
    process = perdure.start("get", "--json", server.url())
    wait_for(lambda: size_of(here / "file.bin.part") == HALF, "half of it comes")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert '"signal":2' in out.decode()
    assert err.decode().startswith("perdure: stopped by INT; 131 kB are kept in ")
    assert err.decode().endswith("file.bin.part, and the same command goes on from there\n")
    again = perdure("get", server.url())
    assert again.returncode == 0
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert (here / "file.bin").read_bytes() == CONTENT


def test_a_wait_is_stopped_too(perdure: Perdure, here: Path, server: Files) -> None:
    server.always = Step(status=503)
    process = perdure.start("get", "--wait", "const:1h", server.url())
    read_some(process.stderr, "the wait is announced")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=BOUND)
    assert process.returncode == 143
    assert list(here.glob("file*")) == []


def test_a_reader_that_goes_away_ends_it_without_a_word(perdure: Perdure, here: Path, server: Files) -> None:
    assert here
    pause = threading.Event()
    server.always = Step(pause=pause)
    process = perdure.start("get", "-o", "-", server.url())
    assert process.stdout is not None
    read_some(process.stdout, "the first bytes come")
    process.stdout.close()
    pause.set()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(BOUND) == 141
    assert len(server.seen) == 1


def test_without_httpx_one_line_says_what_to_install(perdure: Perdure, here: Path) -> None:
    (here / "httpx.py").write_text("raise ModuleNotFoundError('no httpx', name='httpx')\n")
    env = {"PYTHONPATH": f"{here}:{perdure.env['PYTHONPATH']}"}
    ended = perdure("get", "http://127.0.0.1:1/x", env=env)
    assert ended.returncode == 125
    assert ended.stderr == b'perdure: get needs httpx; install it with: pip install "perdure[get]"\n'
    assert not list(here.glob("x*"))


def test_run_does_not_pay_for_get(perdure: Perdure, here: Path) -> None:
    assert here
    program = (
        "import sys\nfrom perdure.cli import main\nassert main(['run', '--', 'true']) == 0\n"
        "print(*sorted(sys.modules))"
    )
    out, _ = perdure.start_python("-c", program).communicate(timeout=BOUND)
    loaded = out.decode().split()
    assert "perdure.cli.run" in loaded
    assert not [name for name in loaded if name.startswith(("httpx", "perdure.cli.get"))]


# On a terminal


class Terminal:
    """A pseudo terminal with the command on it."""

    def __init__(self, perdure: Perdure) -> None:
        self._perdure = perdure
        self._ours, self._theirs = pty.openpty()
        self._seen = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *args: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli", "get", *args],
            env=self._perdure.env | {"TERM": "xterm"} | env,
            cwd=self._perdure.cwd,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
        )

    def see(self, wanted: str) -> str:
        while wanted not in self._seen:
            self._seen += read_some(self._ours, f"{wanted!r} did not come; {self._seen!r} did").decode()
        return self._seen

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(BOUND)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(BOUND)
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(perdure: Perdure, here: Path) -> Iterator[Terminal]:
    assert here
    terminal = Terminal(perdure)
    yield terminal
    terminal.close()


def test_a_terminal_shows_how_far_it_is(terminal: Terminal, server: Files) -> None:
    pause = threading.Event()
    server.script = [Step(status=503)]
    server.always = Step(pause=pause)
    terminal.start("--wait", "const:300ms", "--deadline", "1m", server.url(), NO_COLOR="1")
    seen = terminal.see("131 kB of 262 kB")
    assert re.search(r"perdure: attempt 2 of 4 in 0\.[123] s, deadline in \d+ (s|min) \(Ctrl-C stops\)", seen)
    assert re.search(r"perdure: file.bin  \[(=+) +\] 50 %  131 kB of 262 kB", seen)
    pause.set()
    seen = terminal.see("saved file.bin: 262 kB in ")
    assert "\r\x1b[2Kperdure: saved" in seen, "the line is gone"
    assert "\x1b[2m" not in seen
    assert terminal.end() == 0


def test_content_on_the_terminal_is_not_mixed_with_a_line_about_it(terminal: Terminal, server: Files) -> None:
    server.always = Step(body=b"plain words\r\n" * 3)
    terminal.start("-o", "-", server.url())
    seen = terminal.see("plain words\r\r\n" * 3)
    assert "\x1b" not in seen
    assert terminal.end() == 0
