"""Operating system errors by number: errno of this platform, and the Windows numbers everywhere.

Never sent, so safe for any operation: transient. Cut while in use: ambiguous. The rest: permanent.
"""

from __future__ import annotations

import errno
import os

from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "aborted_error",
    "bare_connection_error",
    "by_errno",
    "fault_of_errno",
    "permission_error",
    "timeout_error",
]

_BY_NAME = {
    FaultKind.TRANSIENT: (
        "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL EINPROGRESS EALREADY ENOBUFS "
        "EMFILE ENFILE EAGAIN EWOULDBLOCK EINTR ENOMEM ENOLCK EBUSY ETXTBSY ESTALE"
    ),
    # ETIMEDOUT is transient when it comes from connect(), but the error does not say where it comes from.
    FaultKind.AMBIGUOUS: (
        "ECONNRESET EPIPE ECONNABORTED ENOTCONN ESHUTDOWN ETIMEDOUT EIO EREMOTEIO ENETRESET"
    ),
    FaultKind.PERMANENT: (
        "ENOENT EACCES EPERM EEXIST EISDIR ENOTDIR ENOTEMPTY EINVAL EROFS ENAMETOOLONG ELOOP EBADF EXDEV "
        "EFBIG EAFNOSUPPORT EPROTONOSUPPORT EDESTADDRREQ ENOSPC EDQUOT EDEADLK"
    ),
    FaultKind.NEUTRAL: "ECANCELED",
}

_WINSOCK = {
    10004: (FaultKind.TRANSIENT, "WSAEINTR"),
    10024: (FaultKind.TRANSIENT, "WSAEMFILE"),
    10035: (FaultKind.TRANSIENT, "WSAEWOULDBLOCK"),
    10036: (FaultKind.TRANSIENT, "WSAEINPROGRESS"),
    10037: (FaultKind.TRANSIENT, "WSAEALREADY"),
    10049: (FaultKind.TRANSIENT, "WSAEADDRNOTAVAIL"),
    10050: (FaultKind.TRANSIENT, "WSAENETDOWN"),
    10051: (FaultKind.TRANSIENT, "WSAENETUNREACH"),
    10052: (FaultKind.AMBIGUOUS, "WSAENETRESET"),
    10053: (FaultKind.AMBIGUOUS, "WSAECONNABORTED"),
    10054: (FaultKind.AMBIGUOUS, "WSAECONNRESET"),
    10055: (FaultKind.TRANSIENT, "WSAENOBUFS"),
    10057: (FaultKind.AMBIGUOUS, "WSAENOTCONN"),
    10058: (FaultKind.AMBIGUOUS, "WSAESHUTDOWN"),
    10060: (FaultKind.TRANSIENT, "WSAETIMEDOUT"),
    10061: (FaultKind.TRANSIENT, "WSAECONNREFUSED"),
    10064: (FaultKind.TRANSIENT, "WSAEHOSTDOWN"),
    10065: (FaultKind.TRANSIENT, "WSAEHOSTUNREACH"),
}

_SHARING = {
    32: Fault(FaultKind.TRANSIENT, None, "file in use by another process (ERROR_SHARING_VIOLATION)"),
    33: Fault(FaultKind.TRANSIENT, None, "file locked by another process (ERROR_LOCK_VIOLATION)"),
}
_RENAME_DENIED = Fault(FaultKind.TRANSIENT, None, "rename denied, file in use (ERROR_ACCESS_DENIED)")
_ACCESS_DENIED = 5
_DENIED = Fault(FaultKind.PERMANENT, None, "permission denied")
_LOST = Fault(FaultKind.AMBIGUOUS, None, "connection lost")
_TIMED_OUT = Fault(FaultKind.AMBIGUOUS, None, "timed out")
_HANDSHAKE = Fault(FaultKind.TRANSIENT, None, "TLS handshake timed out")
_CONNECT = Fault(FaultKind.TRANSIENT, None, "connecting timed out")
_OPENING = Fault(FaultKind.TRANSIENT, None, "opening handshake timed out")
_ABORTED = Fault(FaultKind.AMBIGUOUS, None, "connection aborted")


def _table() -> dict[int, Fault]:
    rows = {number: Fault(kind, None, name) for number, (kind, name) in _WINSOCK.items()}
    for kind, names in _BY_NAME.items():
        for name in names.split():
            number = getattr(errno, name, None)  # each platform lacks some
            if number is not None:
                rows[number] = Fault(kind, None, f"{os.strerror(number).lower()} ({name})")
    return rows


_FAULTS = _table()


def fault_of_errno(number: object) -> Fault | None:
    """Give the fault of an errno that the table knows, else None."""
    return _FAULTS.get(number) if isinstance(number, int) else None


def by_errno(exc: Any) -> Fault | None:
    """Classify an OSError by its errno; None when it has none."""
    number = exc.errno
    if not isinstance(number, int):
        return None
    return _FAULTS.get(number) or Fault(
        FaultKind.PERMANENT, None, errno.errorcode.get(number, f"errno {number}")
    )


def bare_connection_error(exc: Any) -> Fault:
    """Classify a ConnectionError that is none of its subclasses: by errno, else the connection was lost."""
    return fault_of_errno(exc.errno) or _LOST


def permission_error(exc: Any) -> Fault:
    """Classify a PermissionError: on Windows it may only mean that another process holds the file."""
    code = getattr(exc, "winerror", None)
    if code == _ACCESS_DENIED and exc.filename2 is not None:
        return _RENAME_DENIED
    return _SHARING.get(code, _DENIED) if isinstance(code, int) else _DENIED


def timeout_error(exc: Any) -> Fault:
    """Classify a TimeoutError: only its text says that it came before anything was sent."""
    text = exc.args[0] if exc.args else None
    if isinstance(text, str):
        if "handshake operation timed out" in text:
            return _HANDSHAKE
        return _OPENING if "opening handshake" in text else _TIMED_OUT  # of a WebSocket
    # "Connect call failed" is what asyncio puts in place of the system's text.
    return _CONNECT if str(exc.strerror).startswith("Connect call failed") else _TIMED_OUT


def aborted_error(exc: BaseException) -> Fault:
    """Classify a ConnectionAbortedError: asyncio also ends a TLS handshake that takes too long with one."""
    text = exc.args[0] if exc.args else None
    return _HANDSHAKE if isinstance(text, str) and "SSL handshake is taking longer" in text else _ABORTED
