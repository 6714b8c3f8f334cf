"""What the tables of the HTTP clients share."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind
from perdure.faults.clients import as_below, beneath, fault_beneath, fault_of_proxy, in_handshake, unsent

T, A, S, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT
OTHERWISE = Fault(A, None, "otherwise")


class Wrapper(Exception):
    """An exception that no table knows."""


def caused(
    exc: Exception, cause: BaseException | None = None, context: BaseException | None = None
) -> Exception:
    exc.__cause__ = cause
    exc.__context__ = context
    return exc


def test_what_an_exception_was_made_of_comes_nearest_first() -> None:
    root, inner, cause = KeyError(), Wrapper(), OSError()
    inner.__cause__ = root
    exc = caused(Wrapper("text", inner), cause)
    assert list(beneath(exc)) == [inner, root, cause]


def test_the_context_counts_where_nothing_else_is_there_even_if_it_is_hidden() -> None:
    hidden = OSError()
    exc = caused(Wrapper(), context=hidden)
    exc.__suppress_context__ = True
    assert list(beneath(exc)) == [hidden]
    assert list(beneath(caused(Wrapper(), Wrapper("cause"), hidden))) != [hidden]


def test_a_cancellation_under_a_timeout_is_passed_over() -> None:
    timeout = caused(TimeoutError(), asyncio.CancelledError())
    exc = caused(Wrapper(), timeout)
    assert list(beneath(exc)) == [timeout]
    assert fault_beneath(caused(Wrapper(), asyncio.CancelledError())) is None


def test_a_cycle_and_a_long_chain_end() -> None:
    exc = Wrapper()
    exc.__cause__ = Wrapper(exc)
    assert len(list(beneath(exc))) == 1
    long = Wrapper()
    for _ in range(1_000):
        long = Wrapper(long)
    assert len(list(beneath(long))) < 40


def test_bugs_under_a_wrapper_say_nothing() -> None:
    assert as_below(OTHERWISE)(Wrapper(KeyError("x"))) is OTHERWISE
    assert as_below(OTHERWISE)(Wrapper(ConnectionRefusedError())).kind is T
    assert as_below(OTHERWISE)(Wrapper()) is OTHERWISE


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        (ConnectionResetError(), Fault(T, None, "connection reset")),
        (ConnectionRefusedError(), Fault(T, None, "connection refused")),
        (PermissionError(), Fault(P, None, "permission denied")),
        (ssl.SSLCertVerificationError(), Fault(P, None, "certificate not accepted")),
        (OSError("no number"), OTHERWISE),
        (ValueError(), OTHERWISE),
    ],
    ids=repr,
)
def test_what_was_not_sent_is_never_ambiguous(below: Exception, expected: Fault) -> None:
    assert unsent(OTHERWISE)(Wrapper(below)) == expected


def test_a_handshake_is_known_by_the_text_of_the_timeout() -> None:
    assert in_handshake(Wrapper(TimeoutError("_ssl.c:1: The handshake operation timed out")))
    assert not in_handshake(Wrapper(TimeoutError("The read operation timed out")))
    assert not in_handshake(Wrapper())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Tunnel connection failed: 502 Bad Gateway", Fault(T, None, "proxy: HTTP 502 Bad Gateway")),
        ("503 busy", Fault(T, None, "proxy: HTTP 503 Service Unavailable")),
        (407, Fault(S, None, "proxy: HTTP 407 Proxy Authentication Required")),
        ("403 Forbidden", Fault(P, None, "proxy: HTTP 403 Forbidden")),
        ("5021", None),
        ("Proxy Server could not connect: Host unreachable.", None),
        ("", None),
        (None, None),
    ],
    ids=str,
)
def test_a_proxy_is_known_by_the_status_at_the_beginning(said: object, expected: Fault | None) -> None:
    assert fault_of_proxy(said) == expected


@given(st.text() | st.integers() | st.from_regex(r"Tunnel connection failed: \d+ .*"))
def test_whatever_a_proxy_says_is_a_fault_or_none(said: object) -> None:
    fault = fault_of_proxy(said)
    assert fault is None or fault.why.startswith("proxy: HTTP ")
    assert fault is None or fault.kind is not A
