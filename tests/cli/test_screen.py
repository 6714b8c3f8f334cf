"""What is written to stderr, and in which order the writers of one terminal take their turns."""

from __future__ import annotations

import os
import pty
import time
from typing import TYPE_CHECKING

import pytest

from perdure.cli.screen import QUIET, Screen
from tests.cli.processes import read_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ERASE = "\r\x1b[2K"


class Terminal:
    """A pseudo terminal, what was written to it, and a Screen on it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()

    def screen(self, **options: bool) -> Screen:
        return Screen(fd=self.theirs, **options)

    def written(self) -> str:
        os.write(self.theirs, b"\x04END")
        return read_until(self.ours, b"\x04END").decode().removesuffix("\x04END")

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_a_line_takes_the_place_of_the_status_line(terminal: Terminal) -> None:
    screen = terminal.screen()
    screen.draw("working")
    screen.line("perdure: done")
    assert terminal.written() == f"working{ERASE}perdure: done\r\n"


def test_a_new_status_line_takes_the_place_of_the_old_and_the_same_is_not_drawn_twice(
    terminal: Terminal,
) -> None:
    screen = terminal.screen()
    for text in ("one", "one", "two"):
        screen.draw(text)
    screen.erase()
    screen.erase()
    assert terminal.written() == f"one{ERASE}two{ERASE}"


def test_nothing_is_drawn_in_the_middle_of_the_commands_line(terminal: Terminal) -> None:
    screen = terminal.screen()
    screen.saw(b"half")
    screen.draw("status")
    assert terminal.written() == ""
    screen.saw(b" a line\n")
    screen.draw("status")
    assert terminal.written() == "status"


def test_a_sentence_never_continues_the_commands_line(terminal: Terminal) -> None:
    screen = terminal.screen()
    screen.saw(b"half")
    screen.line("perdure: x")
    screen.line("perdure: y")
    assert terminal.written() == "\r\nperdure: x\r\nperdure: y\r\n"


def test_after_output_that_was_not_seen_a_sentence_begins_a_line_wherever_the_cursor_is(
    terminal: Terminal,
) -> None:
    """Blanks to the end of the line, then back to its start: on an empty line that is the same line."""
    screen = terminal.screen()
    screen.lost_sight()
    screen.line("perdure: x")
    assert terminal.written() == " " * 79 + "\r\x1b[Kperdure: x\r\n"


def test_a_status_line_is_cut_to_the_width_of_the_terminal(terminal: Terminal) -> None:
    screen = terminal.screen()
    screen.draw("x" * 500)
    assert terminal.written() == "x" * 79


def test_quiet_is_quiet_but_for_what_was_asked_for(terminal: Terminal) -> None:
    screen = terminal.screen(quiet=True)
    screen.draw("status")
    screen.line("perdure: x")
    screen.always("{}")
    assert terminal.written() == "{}\r\n"


@pytest.mark.parametrize(
    ("output", "later", "calm", "rests"),
    [
        (b"line\n", QUIET, True, True),
        (b"line\n", QUIET / 2, True, False),
        (b"Password: ", QUIET, True, False),
        (b"line\n", QUIET, False, False),
    ],
)
def test_a_status_line_waits_for_quiet_a_whole_line_and_a_calm_terminal(
    output: bytes,
    later: float,
    *,
    calm: bool,
    rests: bool,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = terminal.screen()
    screen.saw(output)
    now = time.monotonic() + later
    clock: Callable[[], float] = lambda: now  # noqa: E731
    monkeypatch.setattr(time, "monotonic", clock)
    assert screen.rests(lambda: calm) is rests


def test_a_pipe_gets_whole_lines_only() -> None:
    ours, theirs = os.pipe()
    screen = Screen(fd=theirs)
    screen.draw("status")
    screen.saw(b"half")
    screen.line("perdure: x")
    os.close(theirs)
    assert os.read(ours, 100) == b"\nperdure: x\n"
    os.close(ours)


def test_a_stderr_that_nobody_reads_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    Screen(fd=theirs).line("perdure: x")
    os.close(theirs)
