"""MongoDB by label and code, with the classes of pymongo; no server is needed."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.mongo import RULES
from perdure.faults.signal import Signal, signal_of

pymongo = pytest.importorskip("pymongo")
errors = pytest.importorskip("pymongo.errors")

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P, N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL

CODES = {
    T: (6, 7, 24, 46, 89, 112, 134, 251, 262, 9001, 10058, 10107, 13435, 13436),
    A: (50, 64, 91, 189, 11600, 11602),
    R: (462, 16500),
    S: (391,),
    N: (11601,),
    P: (1, 2, 9, 13, 18, 26, 43, 59, 66, 121, 11000, 11001, 99_999, None),
}


def failed(code: int | None, *labels: str, cls: Any = None, **details: object) -> Exception:
    error: Exception = (cls or errors.OperationFailure)(
        "text", code, {"code": code, "errorLabels": list(labels), **details}
    )
    return error


@pytest.mark.parametrize(("code", "kind"), [(code, kind) for kind, codes in CODES.items() for code in codes])
def test_a_code_of_the_server(code: int | None, kind: FaultKind) -> None:
    assert classify(failed(code)).kind is kind
    assert classify(failed(code)).why.startswith("MongoDB error")


@pytest.mark.parametrize(
    ("labels", "code", "kind"),
    [
        (["RetryableWriteError"], 2, T),
        (["RetryableWriteError"], 11600, A),  # interrupted: a new call is a new write
        (["TransientTransactionError"], 2, T),
        (["TransientTransactionError"], 11600, T),  # the whole transaction is gone
        (["UnknownTransactionCommitResult"], 64, A),
        (["UnknownTransactionCommitResult", "TransientTransactionError"], 64, A),
        (["NoWritesPerformed", "RetryableWriteError"], 11600, T),
        (["ResumableChangeStreamError"], 43, S),
        (["SystemOverloadedError", "RetryableError"], 2, R),
        (["SystemOverloadedError"], 2, P),
        (["Another"], 11000, P),
    ],
)
def test_a_label_outranks_the_code(labels: list[str], code: int, kind: FaultKind) -> None:
    assert classify(failed(code, *labels)).kind is kind


def test_an_overloaded_server_may_ask_for_a_delay() -> None:
    fault = classify(failed(2, "SystemOverloadedError", "RetryableError", baseBackoffMS=250))
    assert fault == Fault(R, 0.25, "MongoDB is overloaded")
    exc = errors.OperationFailure("Error=16500, RetryAfterMs=34, Details='x'", 16500, {"code": 16500})
    assert classify(exc) == Fault(R, 0.034, "MongoDB error 16500 (request rate too large)")
    exc = errors.OperationFailure("Error=16500, RetryAfterMs=0", 16500, {"code": 16500})
    assert classify(exc).hint is None


@given(
    st.text(),
    st.integers() | st.none(),
    st.dictionaries(st.text(), st.none() | st.integers() | st.lists(st.text())),
)
def test_any_answer_of_a_server_is_classified(text: str, code: int | None, details: dict[str, Any]) -> None:
    for cls in (errors.OperationFailure, errors.WriteError):
        assert not classify(cls(text, code, {**details, "errorLabels": []})).why.startswith("reading it")


CLASSES = [
    (failed(11000, cls=errors.DuplicateKeyError), P),
    (failed(50, cls=errors.ExecutionTimeout), A),
    (failed(64, cls=errors.WTimeoutError), A),
    (failed(64, cls=errors.WriteConcernError), A),
    (failed(112, cls=errors.WriteError), T),
    (failed(43, cls=errors.CursorNotFound), P),
    (errors.AutoReconnect("connection closed"), A),
    (errors.AutoReconnect("127.0.0.1:27017: connection pool paused"), T),
    (errors.ConnectionFailure("x"), A),
    (errors.NetworkTimeout("timed out"), A),
    (errors.ServerSelectionTimeoutError("No servers found yet"), T),
    (errors.WaitQueueTimeoutError("x"), T),
    (errors.NotPrimaryError("x", {"code": 10107}), T),
    (errors.NotPrimaryError("x", {"code": 11602}), A),
    (errors.NotPrimaryError("x"), T),
    (errors.AutoReconnect("x", {"errorLabels": ["TransientTransactionError"]}), T),
    (errors.AutoReconnect("x", {"errorLabels": ["RetryableWriteError"]}), A),
    (errors.NetworkTimeout("x", {"errorLabels": ["UnknownTransactionCommitResult"]}), A),
    (errors.ProtocolError("x"), A),
    (errors.InvalidOperation("x"), P),
    (errors.ConfigurationError("x"), P),
    (errors.PyMongoError("x"), P),
    (errors.EncryptionError(errors.NetworkTimeout("x")), A),
    (errors.EncryptionError(ValueError("x")), P),
]


@pytest.mark.parametrize(("exc", "kind"), CLASSES, ids=lambda value: f"{type(value).__name__}-{value}")
def test_a_class_of_the_driver(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind
    assert classify(exc).why


def test_timeouts_count_as_congestion() -> None:
    for exc in (errors.NetworkTimeout("x"), errors.ServerSelectionTimeoutError("x"), failed(50)):
        assert signal_of(exc, classify(exc), wanted=False) is Signal.OVERLOAD


def bulk(*codes: int) -> Exception:
    written = [{"index": index, "code": code, "errmsg": "x"} for index, code in enumerate(codes)]
    error: Exception = errors.BulkWriteError({"writeErrors": written, "writeConcernErrors": []})
    return error


def test_a_bulk_write_that_was_done_in_part() -> None:
    assert classify(bulk(11000, 112)).kind is P
    assert classify(bulk(112)).kind is A  # others of it were written
    assert classify(bulk()).kind is A
    in_transaction = errors.BulkWriteError({"writeErrors": [], "errorLabels": ["TransientTransactionError"]})
    assert classify(in_transaction).kind is T


def test_a_bulk_write_of_the_client() -> None:
    ended = errors.ClientBulkWriteException(
        {"error": errors.NetworkTimeout("x"), "writeErrors": []}, verbose=False
    )
    assert classify(ended).kind is A
    refused = errors.ClientBulkWriteException(
        {"error": None, "writeErrors": [{"code": 11000}]}, verbose=False
    )
    assert classify(refused).kind is P


def test_a_reconnect_that_was_refused_had_sent_nothing() -> None:
    exc = errors.AutoReconnect("127.0.0.1:1: connection refused")
    exc.__cause__ = ConnectionRefusedError(111, "refused")
    assert classify(exc).kind is T
    exc.__cause__ = ConnectionResetError(104, "reset")
    assert classify(exc).kind is A


def test_every_error_of_the_driver_has_an_answer_of_the_table() -> None:
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.PyMongoError):
            assert any(f"{base.__module__}.{base.__qualname__}" in RULES for base in cls.__mro__)


def test_a_driver_without_a_server() -> None:
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        client: Any = pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=50)
        try:
            with pytest.raises(errors.ServerSelectionTimeoutError) as caught:
                client.admin.command("ping")
        finally:
            client.close()
    assert classify(caught.value).kind is T
