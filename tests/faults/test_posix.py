from __future__ import annotations

import errno

import pytest

from perdure.faults import Fault, FaultKind, classify, transient
from perdure.faults.posix import aborted_error

KINDS = {
    FaultKind.TRANSIENT: (
        "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL EINPROGRESS EALREADY ENOBUFS "
        "EMFILE ENFILE EAGAIN EWOULDBLOCK EINTR ENOMEM ENOLCK EBUSY ETXTBSY ESTALE"
    ),
    FaultKind.AMBIGUOUS: (
        "ECONNRESET EPIPE ECONNABORTED ENOTCONN ESHUTDOWN ETIMEDOUT EIO EREMOTEIO ENETRESET"
    ),
    FaultKind.PERMANENT: (
        "ENOENT EACCES EPERM EEXIST EISDIR ENOTDIR ENOTEMPTY EINVAL EROFS ENAMETOOLONG ELOOP EBADF EXDEV "
        "EFBIG EAFNOSUPPORT EPROTONOSUPPORT EDESTADDRREQ ENOSPC EDQUOT EDEADLK EXDEV ENOTTY"
    ),
    FaultKind.NEUTRAL: "ECANCELED",
}
ROWS = [(name, kind) for kind, names in KINDS.items() for name in names.split() if hasattr(errno, name)]


@pytest.mark.parametrize(("name", "kind"), ROWS)
def test_an_oserror_is_classified_by_its_errno(name: str, kind: FaultKind) -> None:
    exc = OSError(getattr(errno, name), "text in any language")
    assert classify(exc).kind is kind
    assert classify(exc).why


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *(
            (number, FaultKind.TRANSIENT)
            for number in (10004, 10024, 10035, 10036, 10037, 10049, 10050, 10051)
        ),
        *((number, FaultKind.TRANSIENT) for number in (10055, 10060, 10061, 10064, 10065)),
        *((number, FaultKind.AMBIGUOUS) for number in (10052, 10053, 10054, 10057, 10058)),
        (10013, FaultKind.PERMANENT),
        (10048, FaultKind.PERMANENT),
        (99999, FaultKind.PERMANENT),
        (-1, FaultKind.PERMANENT),
    ],
)
def test_windows_and_unknown_numbers(number: int, kind: FaultKind) -> None:
    assert classify(OSError(number, "x")).kind is kind


def test_an_oserror_says_what_it_is() -> None:
    assert classify(OSError(errno.EIO, "x")).why.endswith("(EIO)")
    assert classify(OSError(errno.ENOTTY, "x")).why == "ENOTTY"
    assert classify(OSError(99999, "x")).why == "errno 99999"


@pytest.mark.parametrize("number", [None, "2", [1], 2.0])
def test_an_errno_that_is_no_number_is_none(number: object) -> None:
    assert classify(OSError(number, "x")).why.startswith("OSError without errno")


def test_a_connection_error_with_an_errno_goes_by_it() -> None:
    assert classify(ConnectionError(errno.EHOSTUNREACH, "x")).kind is FaultKind.TRANSIENT
    assert classify(ConnectionError(99999, "x")).kind is FaultKind.AMBIGUOUS


class WindowsPermissionError(PermissionError):
    """As Windows makes it: an OSError has no winerror on other systems."""

    def __init__(self, winerror: int, filename2: str | None = None) -> None:
        super().__init__(errno.EACCES, "Access is denied", "a", winerror, filename2)
        self.winerror = winerror  # type: ignore[misc]


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (WindowsPermissionError(32), FaultKind.TRANSIENT),
        (WindowsPermissionError(33), FaultKind.TRANSIENT),
        (WindowsPermissionError(5), FaultKind.PERMANENT),
        (WindowsPermissionError(5, "b"), FaultKind.TRANSIENT),
    ],
)
def test_a_file_held_by_another_process_is_free_later(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind


def test_a_mark_counts_on_an_oserror_as_well() -> None:
    assert classify(transient(OSError(errno.ENOSPC, "x"))).kind is FaultKind.TRANSIENT


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (TimeoutError(), FaultKind.AMBIGUOUS),
        (TimeoutError("timed out"), FaultKind.AMBIGUOUS),
        (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), FaultKind.AMBIGUOUS),
        (TimeoutError(errno.ETIMEDOUT, None), FaultKind.AMBIGUOUS),
        (TimeoutError(errno.ETIMEDOUT, "Connect call failed ('192.0.2.1', 80)"), FaultKind.TRANSIENT),
        (TimeoutError("_ssl.c:1000: The handshake operation timed out"), FaultKind.TRANSIENT),
        (TimeoutError("timed out during opening handshake"), FaultKind.TRANSIENT),
    ],
)
def test_a_timeout_before_anything_was_sent_says_so(exc: Exception, kind: FaultKind) -> None:
    fault = classify(exc)
    assert fault.kind is kind
    assert "timed out" in fault.why


def test_asyncio_ends_a_slow_tls_handshake_with_an_abort() -> None:
    slow = ConnectionAbortedError("SSL handshake is taking longer than 60.0 seconds: aborting the connection")
    assert aborted_error(slow) == Fault(FaultKind.TRANSIENT, None, "TLS handshake timed out")
    assert aborted_error(ConnectionAbortedError()) == classify(ConnectionAbortedError())
    assert aborted_error(ConnectionAbortedError(errno.ECONNABORTED, "x")).kind is FaultKind.AMBIGUOUS
