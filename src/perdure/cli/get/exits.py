"""Exit codes of ``perdure get``, which stay as they are.

=====  =========================================================================================
0      everything is there
1      it does not have the checksum
2      the command line could not be understood
3      refused: another process is writing the same part
4      not worth another attempt: not found, not allowed, a certificate that is not valid
5      given up, and worth another run later: attempts used up, or the server asked for a longer wait
124    the deadline has passed, or the last attempt was cut by --timeout
125    trouble on this side: no room, no permission
128+n  signal n; 130 is Ctrl-C
=====  =========================================================================================
"""

from __future__ import annotations

__all__ = ["REFUSED", "exit_code"]

CHECKSUM, REFUSED, TERMINAL, EXHAUSTED, TIMED_OUT = 1, 3, 4, 5, 124

_CODES = {
    "success": 0,
    "checksum": CHECKSUM,
    "refused": REFUSED,
    "permanent": TERMINAL,
    "unsafe": TERMINAL,
    "neutral": TERMINAL,
    "deadline": TIMED_OUT,
}


def exit_code(stop: str, *, timed_out: bool = False, signum: int | None = None) -> int:
    """The code for an ending; ``timed_out``: the last attempt was cut by --timeout or --deadline."""
    if signum is not None:
        return 128 + signum
    if stop == "attempts" and timed_out:
        return TIMED_OUT
    return _CODES.get(stop, EXHAUSTED)
