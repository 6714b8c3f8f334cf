"""Exit codes of ``perdure run``, which stay as they are.

=====  =========================================================================================
0      the command succeeded (with --until-fails: it failed)
n      the command's own code, when perdure gave up on it or did not retry it
2      the command line or the environment could not be understood
75     not started: --breaker or --lock refused the first attempt; ask again later (EX_TEMPFAIL of sysexits.h)
124    an attempt was cut by --timeout, or --deadline left no room for another attempt
125    perdure itself failed
126    the command cannot be executed
127    the command was not found
128+n  death by signal n, of the command or of perdure
=====  =========================================================================================

A retry that --breaker or --budget refuses ends the run like any other giving up: with the command's own code.

``--map-exit`` gives the endings of ``values.ENDINGS`` other codes.
"""

from __future__ import annotations

from perdure.cli.child.supervised import TIMED_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.cli.record import Attempt, Request

__all__ = ["FAILED", "NOT_DONE", "REFUSED", "USAGE", "exit_code"]

USAGE = 2
NOT_DONE = 1
REFUSED = 75
FAILED = 125

REFUSALS = ("breaker", "lock")
"""How a run ends whose command was never started, because of what it shares with others."""

_NAMES = {
    "attempts": "exhausted",
    "breaker": "exhausted",
    "budget": "exhausted",
    "lock": "exhausted",
    "deadline": "deadline",
    "permanent": "stopped",
    "unreplayable": "unreplayable",
}


def exit_code(request: Request, stop: str, last: Attempt | None) -> int:
    """The code for an ending; the kind of ending goes before the kind of the last failure."""
    if stop == "success":
        return 0
    mapped = request.exit_map
    if last is None:
        return _refused(mapped) if stop in REFUSALS else FAILED
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


def _refused(mapped: Mapping[str, int | None]) -> int:
    chosen = mapped.get("refused")
    return REFUSED if chosen is None else chosen  # a command that was not started has no code of its own
