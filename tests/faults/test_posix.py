from __future__ import annotations

import errno

import pytest

from perdure.faults import FaultKind, classify, transient

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
        (10053, FaultKind.AMBIGUOUS),
        (10054, FaultKind.AMBIGUOUS),
        (10060, FaultKind.TRANSIENT),
        (10061, FaultKind.TRANSIENT),
        (10065, FaultKind.TRANSIENT),
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
