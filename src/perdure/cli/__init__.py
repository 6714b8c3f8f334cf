"""The command ``perdure``. Needs click: ``pip install "perdure[cli]"``, or ``"perdure[get]"`` for downloads too."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

CANNOT = 125

GARBAGE = 100_000
"""Objects between two looks for garbage: what importing makes is none, and looking is a tenth of the start."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` as in sys.argv after the program's name.

    For the main thread of a process of its own: it handles signals. Never raises an Exception.
    """
    _hold_standard_descriptors()
    gc.set_threshold(GARBAGE)
    try:
        from perdure.cli.app import invoke
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        if sys.stderr is not None:
            given = sys.argv[1:] if arguments is None else arguments
            extra = "get" if given[:1] == ["get"] else "cli"  # that of get brings click as well
            sys.stderr.write(
                f'perdure: the command line needs click; install it with: pip install "perdure[{extra}]"\n'
            )
        return CANNOT
    return invoke(arguments)


def _hold_standard_descriptors() -> None:
    """Where perdure was started with 0, 1 or 2 closed, keep the number from being used for something else.

    The stand-in is opened the wrong way round, so that reading and writing fail as they would have.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(fd)
        except OSError:
            held = os.open(os.devnull, mode)  # the lowest free number, which is this one
            os.set_inheritable(held, True)  # noqa: FBT003 - by position only
