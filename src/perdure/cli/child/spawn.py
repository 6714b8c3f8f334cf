"""Starting a program in a process group of its own.

By ``posix_spawn`` and not ``subprocess``: it needs no import, and a wrapper has no business closing the
descriptors that the command was meant to inherit (3 and up: a job server, a passed socket, ``3>log``).
"""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CannotStart", "spawn"]

NOT_EXECUTABLE, NOT_FOUND = 126, 127


class CannotStart(Exception):
    """The command could not be started: ``code`` is 126 (not executable) or 127 (not found)."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def spawn(argv: Sequence[str], env: Mapping[str, str], stdin: int | None, stdout: int, stderr: int) -> int:
    """Start ``argv``, found by PATH, as the leader of a new group; returns its process id.

    ``stdin`` None is an empty one. Signals that Python ignores (PIPE, XFSZ) have their default effect again.
    Raises CannotStart.
    """
    try:
        return _spawn(argv, env, stdin, stdout, stderr)
    except ValueError as error:  # a NUL character in an argument
        raise CannotStart(NOT_EXECUTABLE, f"{argv[0]}: cannot be run: {error}") from error
    except OSError as error:
        if error.errno != errno.ENOEXEC or os.sep not in argv[0]:
            raise _why_not(argv[0], error) from error
        # A script without a first line that says what runs it: shells run such scripts themselves
        return _spawn(["/bin/sh", *argv], env, stdin, stdout, stderr)


def _spawn(argv: Sequence[str], env: Mapping[str, str], stdin: int | None, stdout: int, stderr: int) -> int:
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = []
    if stdin is None:
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    actions += [
        (os.POSIX_SPAWN_DUP2, source, target)
        for source, target in ((stdin, 0), (stdout, 1), (stderr, 2))
        if source is not None and source != target
    ]
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]
    return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setpgroup=0, setsigdef=ignored)


def _why_not(program: str, error: OSError) -> CannotStart:
    """126 or 127, with the words a person needs."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if os.sep in program and os.path.exists(program):  # noqa: PTH110 - pathlib would cost its import
            return CannotStart(
                NOT_EXECUTABLE, f"{program}: its interpreter (the line after #!) does not exist"
            )
        return CannotStart(NOT_FOUND, f"{program or repr(program)}: command not found")
    if isinstance(error, PermissionError):
        return CannotStart(NOT_EXECUTABLE, f"{program}: not executable (permission denied)")
    return CannotStart(NOT_EXECUTABLE, f"{program}: cannot be run: {error.strerror}")
