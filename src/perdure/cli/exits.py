"""Exit codes of ``perdure run``, which stay as they are.

=====  =========================================================================================
0      the command succeeded (with --until-fails: it failed)
n      the command's own code, when perdure gave up on it or did not retry it
2      the command line or the environment could not be understood
124    an attempt was cut by --timeout, or --deadline left no room for another attempt
125    perdure itself failed
126    the command cannot be executed
127    the command was not found
128+n  death by signal n, of the command or of perdure
=====  =========================================================================================

``--map-exit`` gives the endings of ``values.ENDINGS`` other codes.
"""

from __future__ import annotations

from perdure.cli.child.supervised import TIMED_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.record import Attempt, Request

__all__ = ["FAILED", "USAGE", "exit_code"]

USAGE = 2
FAILED = 125

_NAMES = {
    "attempts": "exhausted",
    "deadline": "deadline",
    "permanent": "stopped",
    "unreplayable": "unreplayable",
}


def exit_code(request: Request, stop: str, last: Attempt | None) -> int:
    """The code for an ending; the kind of ending goes before the kind of the last failure."""
    if stop == "success":
        return 0
    if last is None:
        return FAILED
    mapped = request.exit_map
    name = _NAMES.get(stop, "")
    code = last.verdict.code
    if not last.ran.started:
        return code
    if name in mapped:
        chosen = mapped[name]
        return code if chosen is None else chosen
    if last.ran.timed_out and "timeout" in mapped:
        chosen = mapped["timeout"]
        return code if chosen is None else chosen
    return TIMED_OUT if stop == "deadline" else code
