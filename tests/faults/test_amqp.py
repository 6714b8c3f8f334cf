"""AMQP by reply code and class; against a real broker in tests/integration/test_rabbitmq.py."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.amqp import RULES
from perdure.faults.signal import Signal, signal_of

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P, N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL

REPLIES = {
    T: (313, 405),
    A: (320, 541),
    S: (200,),
    P: (311, 312, 402, 403, 404, 406, 501, 502, 503, 504, 505, 506, 530, 540),
}
ROWS = [(code, kind) for kind, codes in REPLIES.items() for code in codes]


@pytest.mark.parametrize(("code", "kind"), ROWS)
def test_a_reply_code_in_pika_and_aiormq(code: int, kind: FaultKind) -> None:
    pika = pytest.importorskip("pika.exceptions")
    aiormq = pytest.importorskip("aiormq.exceptions")
    for cls in (pika.ConnectionClosedByBroker, pika.ChannelClosedByBroker):
        assert classify(cls(code, "TEXT")).kind is kind
    for cls in (aiormq.ConnectionClosed, aiormq.ChannelClosed):
        assert classify(cls(code, "TEXT")).kind is kind
        assert str(code) in classify(cls(code, "TEXT")).why


@pytest.mark.parametrize(("code", "kind"), ROWS)
def test_a_reply_code_has_a_class_in_py_amqp(code: int, kind: FaultKind) -> None:
    amqp = pytest.importorskip("amqp.exceptions")
    cls = amqp.ERROR_MAP.get(code)
    if cls is None:
        pytest.skip("py-amqp has no class for it")
    assert classify(cls("TEXT")).kind is kind


def test_the_classes_that_aiormq_has_for_reply_codes() -> None:
    connection = pytest.importorskip("aiormq.connection").EXCEPTION_MAPPING
    channel = pytest.importorskip("aiormq.channel").EXCEPTION_MAPPING
    kinds = dict(ROWS)
    for code, cls in {**connection, **channel}.items():
        assert classify(cls("TEXT")).kind is kinds[code], cls


@given(st.integers() | st.none() | st.text())
def test_any_reply_has_an_answer(code: Any) -> None:
    aiormq = pytest.importorskip("aiormq.exceptions")
    assert not classify(aiormq.ConnectionClosed(code, "TEXT")).why.startswith("reading it")


def test_an_unknown_reply_is_a_lost_connection() -> None:
    aiormq = pytest.importorskip("aiormq.exceptions")
    assert classify(aiormq.ConnectionClosed(999, "TEXT")).kind is A
    assert classify(aiormq.ConnectionClosed()).kind is A


def pika_rows() -> list[tuple[str, tuple[object, ...], FaultKind]]:
    return [
        ("StreamLostError", ("Stream connection lost: ConnectionResetError(104, 'reset')",), A),
        ("AMQPConnectionError", (), A),
        ("AMQPHeartbeatTimeout", ("No activity",), A),
        ("ConnectionBlockedTimeout", (), A),
        ("ConnectionOpenAborted", (), N),
        ("IncompatibleProtocolError", ("StreamLostError: ('Transport indicated EOF',)",), T),
        ("IncompatibleProtocolError", ("The protocol returned by the server is not supported",), P),
        ("AuthenticationError", ("PLAIN",), P),
        ("ProbableAuthenticationError", ("ConnectionClosedByBroker: (403) 'ACCESS_REFUSED'",), P),
        ("ProbableAccessDeniedError", ("ConnectionClosedByBroker: (530) 'vhost nope not found'",), P),
        ("ProbableAccessDeniedError", ("(530) 'access refused: connection limit (1) is reached'",), T),
        ("ProbableAccessDeniedError", ("ConnectionClosedByBroker: (541) 'vhost / is down'",), T),
        ("ConnectionWrongStateError", (), S),
        ("ChannelWrongStateError", ("Channel is closed.",), S),
        ("ChannelClosedByClient", (200, "Normal shutdown"), S),
        ("ConnectionClosedByClient", (200, "Normal shutdown"), S),
        ("ConsumerCancelled", (), S),
        ("NackError", ([],), T),
        ("UnroutableError", ([],), P),
        ("NoFreeChannels", (), P),
        ("DuplicateConsumerTag", ("tag",), P),
        ("UnexpectedFrameError", ("frame",), P),
        ("ChannelError", (), P),
        ("ReentrancyError", (), P),
        ("ShortStringTooLong", ("x",), P),
    ]


@pytest.mark.parametrize(("name", "args", "kind"), pika_rows())
def test_a_class_of_pika(name: str, args: tuple[object, ...], kind: FaultKind) -> None:
    pika = pytest.importorskip("pika.exceptions")
    assert classify(getattr(pika, name)(*args)).kind is kind


def test_what_pika_found_while_connecting() -> None:
    pika = pytest.importorskip("pika.exceptions")
    workflow = pytest.importorskip("pika.adapters.utils.connection_workflow")

    def connecting(below: Exception) -> Exception:
        error: Exception = pika.AMQPConnectionError(workflow.AMQPConnectorSocketConnectError(below))
        return error

    assert classify(connecting(ConnectionRefusedError())).kind is T
    assert classify(connecting(ConnectionResetError())).kind is T  # nothing was sent yet
    assert classify(connecting(socket.gaierror(socket.EAI_NONAME, "x"))).kind is P
    refused = workflow.AMQPConnectorAMQPHandshakeError(pika.ProbableAuthenticationError("x"))
    assert classify(refused).kind is P
    assert classify(workflow.AMQPConnectionWorkflowFailed([ConnectionRefusedError(), refused])).kind is P
    assert classify(workflow.AMQPConnectionWorkflowFailed([])).kind is T
    timeout = workflow.AMQPConnectorStackTimeout("x")
    assert signal_of(timeout, classify(timeout), wanted=False) is Signal.OVERLOAD
    assert classify(workflow.AMQPConnectorAborted()).kind is N
    assert classify(workflow.AMQPConnectorWrongState()).kind is P


def aiormq_error(name: str, *args: object) -> Exception:
    error: Exception = getattr(pytest.importorskip("aiormq.exceptions"), name)(*args)
    return error


def test_a_login_that_is_wrong_is_no_lost_connection() -> None:
    """Both classes are builtin ConnectionErrors."""
    for name in ("AuthenticationError", "ProbableAuthenticationError"):
        exc = aiormq_error(name, "x")
        assert isinstance(exc, ConnectionError)
        assert classify(exc).kind is P


@pytest.mark.parametrize(
    ("below", "kind"),
    [
        (ConnectionRefusedError(111, "refused"), T),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), P),
        (socket.gaierror(socket.EAI_AGAIN, "later"), T),
        (ConnectionResetError(104, "reset"), A),
        (EOFError(), A),
    ],
)
def test_what_lies_under_a_connection_error_of_aiormq(below: Exception, kind: FaultKind) -> None:
    exc = aiormq_error("AMQPConnectionError", *below.args)
    assert classify(exc).kind is A
    exc.__cause__ = below
    assert classify(exc).kind is kind


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (("ChannelInvalidStateError", "closed"), S),
        (("IncompatibleProtocolError", "x"), P),
        (("DuplicateConsumerTag", "x"), P),
        (("InvalidFrameError", "Expected one of ['Connection.OpenOk'], got Connection.Close"), P),
        (("ProtocolSyntaxError", "x"), P),
        (("MethodNotImplemented", "x"), P),
    ],
)
def test_a_class_of_aiormq(exc: tuple[str, ...], kind: FaultKind) -> None:
    assert classify(aiormq_error(*exc)).kind is kind


def test_messages_that_came_back_or_were_not_taken() -> None:
    commands: Any = pytest.importorskip("pamqp.commands")
    assert classify(aiormq_error("DeliveryError", None, commands.Basic.Nack())).kind is T
    assert classify(aiormq_error("DeliveryError", None, commands.Basic.Reject())).kind is T
    returned = commands.Basic.Return(reply_code=312, reply_text="NO_ROUTE")
    assert classify(aiormq_error("DeliveryError", None, returned)).kind is P
    returned = commands.Basic.Return(reply_code=313, reply_text="NO_CONSUMERS")
    assert classify(aiormq_error("DeliveryError", None, returned)).kind is T


def test_an_empty_queue_of_aio_pika() -> None:
    aio_pika = pytest.importorskip("aio_pika.exceptions")
    assert classify(aio_pika.QueueEmpty()) == Fault(P, None, "queue empty")


def test_kombu_and_py_amqp() -> None:
    kombu = pytest.importorskip("kombu.exceptions")
    amqp = pytest.importorskip("amqp.exceptions")
    exc = kombu.OperationalError("x")
    assert classify(exc).kind is A
    exc.__cause__ = ConnectionRefusedError(111, "refused")
    assert classify(exc).kind is T
    assert classify(kombu.ConnectionLimitExceeded(10)).kind is T
    assert classify(kombu.SerializationError("x")).kind is P
    assert classify(amqp.RecoverableConnectionError("x")).kind is A
    assert classify(amqp.MessageNacked()).kind is T
    assert classify(amqp.ConsumerCancelled("x")).kind is S


@pytest.mark.parametrize("name", ["pika.exceptions", "aiormq.exceptions", "aio_pika.exceptions"])
def test_every_class_of_a_library_has_an_answer_of_the_table(name: str) -> None:
    module = pytest.importorskip(name)
    for cls in vars(module).values():
        if isinstance(cls, type) and issubclass(cls, Exception) and cls.__module__ == name:
            assert any(f"{base.__module__}.{base.__qualname__}" in RULES for base in cls.__mro__), cls
