"""TLS and name resolution: exceptions of `ssl` and `socket`.

Imported when one of them was raised, so both modules are loaded already.
"""

from __future__ import annotations

import socket

from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.posix import fault_of_errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES", "functions_of", "was_in_handshake"]

# By name: EAI_NONAME is -2 on Linux and 8 on macOS.
_RESOLVER = {
    "EAI_AGAIN": (FaultKind.TRANSIENT, "name server does not answer (EAI_AGAIN)"),
    "EAI_MEMORY": (FaultKind.TRANSIENT, "resolver out of memory (EAI_MEMORY)"),
    "EAI_FAIL": (FaultKind.PERMANENT, "name server failed for good (EAI_FAIL)"),
    "EAI_NODATA": (FaultKind.PERMANENT, "host has no address (EAI_NODATA)"),
    "EAI_NONAME": (FaultKind.PERMANENT, "unknown host name, or no network (EAI_NONAME)"),
    "EAI_SERVICE": (FaultKind.PERMANENT, "unknown service (EAI_SERVICE)"),
}
_FAULTS = {
    number: Fault(kind, None, why)
    for name, (kind, why) in _RESOLVER.items()
    if (number := getattr(socket, name, None)) is not None
}
_UNRESOLVED = Fault(FaultKind.PERMANENT, None, "name resolution failed")

_TRY_AGAIN = 2  # netdb.h, the same number everywhere
_HOST_AGAIN = Fault(FaultKind.TRANSIENT, None, "name server does not answer (TRY_AGAIN)")


def _gaierror(exc: Any) -> Fault:
    number = exc.errno
    return _FAULTS.get(number, _UNRESOLVED) if isinstance(number, int) else _UNRESOLVED


def _herror(exc: Any) -> Fault:
    return _HOST_AGAIN if exc.errno == _TRY_AGAIN else _UNRESOLVED


_EOF_IN_HANDSHAKE = Fault(FaultKind.TRANSIENT, None, "peer closed during the TLS handshake")
_EOF = Fault(FaultKind.AMBIGUOUS, None, "TLS connection cut")
_CORRUPT = Fault(FaultKind.AMBIGUOUS, None, "TLS record damaged")
_BROKEN = Fault(FaultKind.AMBIGUOUS, None, "TLS connection broken")
_WAITING = Fault(FaultKind.TRANSIENT, None, "TLS would block")

_CUT_REASONS = ("UNEXPECTED_EOF_WHILE_READING", "APPLICATION_DATA_AFTER_CLOSE_NOTIFY")
_DAMAGED_REASONS = ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "SSLV3_ALERT_BAD_RECORD_MAC")


def _ssl_error(exc: Any) -> Fault:
    """Configuration, unless OpenSSL says that the connection broke: versions and protocols stay."""
    reason = getattr(exc, "reason", None)
    if reason in _CUT_REASONS:
        return _ssl_eof(exc)
    if reason in _DAMAGED_REASONS:
        return _CORRUPT
    return Fault(FaultKind.PERMANENT, None, f"TLS {reason}" if isinstance(reason, str) else "TLS failure")


def _ssl_eof(exc: BaseException) -> Fault:
    return _EOF_IN_HANDSHAKE if was_in_handshake(exc) else _EOF


def functions_of(exc: BaseException, *files: str) -> set[str]:
    """Name the functions on the stack of `exc` from files whose path contains one of `files`.

    Some clients raise one class for everything, and only this says how far they had got. Bounded in depth.
    """
    names: set[str] = set()
    entry = exc.__traceback__
    for _ in range(_FRAMES):
        if entry is None:
            break
        code = entry.tb_frame.f_code
        if any(file in code.co_filename for file in files):
            names.add(code.co_name)
        entry = entry.tb_next
    return names


def was_in_handshake(exc: BaseException) -> bool:
    """Whether it was raised inside a handshake, before any request.

    Nothing on the error tells it from a cut answer; the stack does.
    """
    return not _HANDSHAKES.isdisjoint(functions_of(exc, "ssl.py", "sslproto.py"))


_FRAMES = 200
_HANDSHAKES = frozenset({"do_handshake", "_do_handshake", "_on_handshake_complete"})

_SSL_ERRORS_BELOW = 13  # the errno of an SSLError is one of OpenSSL's 0 to 12, which are no errnos


def _ssl_syscall(exc: Any) -> Fault:
    number = exc.errno
    known = fault_of_errno(number) if isinstance(number, int) and number >= _SSL_ERRORS_BELOW else None
    return known or _BROKEN


RULES: dict[str, Step] = {
    "socket.gaierror": _gaierror,
    "socket.herror": _herror,
    "ssl.SSLCertVerificationError": Fault(FaultKind.PERMANENT, None, "certificate not accepted"),
    "ssl.SSLEOFError": _ssl_eof,
    "ssl.SSLZeroReturnError": Fault(FaultKind.AMBIGUOUS, None, "peer closed the TLS connection"),
    "ssl.SSLWantReadError": _WAITING,
    "ssl.SSLWantWriteError": _WAITING,
    "ssl.SSLSyscallError": _ssl_syscall,
    "ssl.SSLError": _ssl_error,
}
