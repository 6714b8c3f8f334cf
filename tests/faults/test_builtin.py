from __future__ import annotations

import asyncio
import concurrent.futures
import io
import json
import queue
from concurrent.futures.process import BrokenProcessPool
from concurrent.futures.thread import BrokenThreadPool

import pytest

from perdure import errors
from perdure.faults import Fault, FaultKind, classify, transient

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)

BUGS = [
    TypeError(),
    AttributeError(),
    NameError(),
    UnboundLocalError(),
    ImportError(),
    ModuleNotFoundError(),
    LookupError(),
    KeyError(),
    IndexError(),
    ValueError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    AssertionError(),
    NotImplementedError(),
    RecursionError(),
    SyntaxError(),
    ArithmeticError(),
    ZeroDivisionError(),
    OverflowError(),
    RuntimeError(),
    BufferError(),
    ReferenceError(),
    SystemError(),
    StopIteration(),
    StopAsyncIteration(),
    DeprecationWarning(),
    io.UnsupportedOperation(),
]


@pytest.mark.parametrize("exc", BUGS, ids=lambda exc: type(exc).__name__)
def test_bugs_are_permanent(exc: Exception) -> None:
    fault = classify(exc)
    assert fault.kind is P
    assert fault.why.startswith("bug: ")
    assert not fault.retryable


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (ConnectionRefusedError(), T),
        (ConnectionResetError(), A),
        (ConnectionAbortedError(), A),
        (BrokenPipeError(), A),
        (ConnectionError(), A),
        (TimeoutError(), A),
        (TimeoutError("timed out"), A),
        (TimeoutError("_ssl.c:1015: The handshake operation timed out"), T),
        (TimeoutError("_ssl.c:1015: The read operation timed out"), A),
        (BlockingIOError(), T),
        (InterruptedError(), T),
        (ChildProcessError(), P),
        (ProcessLookupError(), P),
        (FileNotFoundError(), P),
        (FileExistsError(), P),
        (IsADirectoryError(), P),
        (NotADirectoryError(), P),
        (PermissionError(), P),
        (MemoryError(), P),
        (EOFError(), A),
        (Exception(), P),
        (asyncio.IncompleteReadError(b"", 3), A),
        (asyncio.LimitOverrunError("x", 3), P),
        (asyncio.QueueFull(), P),
        (asyncio.QueueEmpty(), P),
        (asyncio.InvalidStateError(), P),
        (queue.Empty(), P),
        (queue.Full(), P),
        (concurrent.futures.CancelledError(), N),
        (concurrent.futures.InvalidStateError(), P),
        (BrokenProcessPool(), A),
        (BrokenThreadPool(), A),
        (errors.BreakerOpen("db"), N),
        (errors.RateLimited("db"), N),
        (errors.DeadlineExceeded(), N),
        (errors.AttemptTimeout(), A),
        (errors.ResultRejected(3), T),
        (errors.ConfigError("x"), P),
        (errors.PerdureError("x"), P),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_of_builtin_and_standard_exceptions(exc: Exception, kind: FaultKind) -> None:
    fault = classify(exc)
    assert fault.kind is kind
    assert fault.why


def test_every_refusal_is_neutral() -> None:
    ours = [cls for cls in errors.Refused.__subclasses__() if cls.__module__ == errors.__name__]
    assert {classify(cls()).kind for cls in ours} == {N}


def test_a_bare_oserror_is_permanent_and_says_why() -> None:
    fault = classify(OSError("something"))
    assert fault.kind is P
    assert fault.why == "OSError without errno"
    wrapped = OSError("read failed")
    wrapped.__cause__ = ConnectionRefusedError()
    assert classify(wrapped).kind is T


def decode(text: str) -> json.JSONDecodeError:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    return caught.value


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": ', '["a', "[1, 2", '{"a'])
def test_json_that_ends_too_early_is_ambiguous(text: str) -> None:
    assert classify(decode(text)) == Fault(A, None, "JSON ends too early")


@pytest.mark.parametrize("text", ["<html></html>", "{a: 1}", "", "[1] [2]"])
def test_what_is_no_json_stays_so(text: str) -> None:
    assert classify(decode(text)) == Fault(P, None, "not JSON")


# -- groups --------------------------------------------------------------------------------------------

PERMANENT, AMBIGUOUS, TRANSIENT, NEUTRAL = (
    ValueError(),
    TimeoutError(),
    ConnectionRefusedError(),
    errors.BreakerOpen("db"),
)


class HTTPStatusError(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(status)
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("leaves", "kind", "hint"),
    [
        ([TRANSIENT, PERMANENT, AMBIGUOUS], P, None),
        ([TRANSIENT, AMBIGUOUS], A, None),
        ([TRANSIENT, TRANSIENT], T, None),
        ([TRANSIENT, HTTPStatusError(429, retry_after="3"), HTTPStatusError(429, retry_after="9")], R, 9.0),
        ([HTTPStatusError(429, retry_after="9"), AMBIGUOUS], A, 9.0),
        ([HTTPStatusError(429, retry_after="9"), PERMANENT], P, None),
        ([HTTPStatusError(401), TRANSIENT], S, None),
        ([HTTPStatusError(401), AMBIGUOUS], A, None),
        ([transient(ValueError(), after=4.0)], T, 4.0),
        ([NEUTRAL, TRANSIENT], T, None),
        ([NEUTRAL], N, None),
    ],
)
def test_a_group_is_as_its_most_cautious_leaf(
    leaves: list[Exception], kind: FaultKind, hint: float | None
) -> None:
    for group in (ExceptionGroup("flat", leaves), ExceptionGroup("deep", [ExceptionGroup("inner", leaves)])):
        fault = classify(group)
        assert (fault.kind, fault.hint) == (kind, hint)


def test_a_member_raised_out_of_its_own_group_is_classified() -> None:
    member = Exception("unknown")
    group = ExceptionGroup("g", [member, Exception("other")])
    member.__context__ = group
    assert classify(member).why == "unknown exception type"
    assert classify(group).why == "unknown exception type"


def test_a_wrapper_of_a_group_is_what_the_group_is() -> None:
    wrapper = Exception()
    wrapper.__cause__ = ExceptionGroup("g", [TRANSIENT, AMBIGUOUS])
    assert classify(wrapper).kind is A


def test_a_deep_group_is_no_recursion() -> None:
    group: Exception = ConnectionRefusedError()
    for _ in range(5_000):
        group = ExceptionGroup("g", [group])
    assert classify(group).kind is T
