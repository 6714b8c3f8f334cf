"""AMQP 0-9-1 by reply code: exceptions of `pika`, `aiormq`, `aio_pika`, `amqp` (py-amqp) and `kombu`."""

from __future__ import annotations

from perdure.faults.chain import chain
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.rules import known_fault
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _is(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


# What a broker says when it closes a channel or a connection, or returns a message. 320 comes when it shuts down
# or an operator closes the connection: what was under way then may have been done.
_REPLIES = {
    200: _is(FaultKind.STALE, "closed by this process: open a new one (200)"),
    311: _is(FaultKind.PERMANENT, "content too large (311)"),
    312: _is(FaultKind.PERMANENT, "no route for the message (312)"),
    313: _is(FaultKind.TRANSIENT, "no consumers (313)"),
    320: _is(FaultKind.AMBIGUOUS, "the broker forced the connection to close (320)"),
    402: _is(FaultKind.PERMANENT, "invalid path (402)"),
    403: _is(FaultKind.PERMANENT, "access refused (403)"),
    404: _is(FaultKind.PERMANENT, "not found (404)"),
    405: _is(FaultKind.TRANSIENT, "resource locked by another connection (405)"),
    406: _is(FaultKind.PERMANENT, "precondition failed (406)"),
    501: _is(FaultKind.PERMANENT, "frame error (501)"),
    502: _is(FaultKind.PERMANENT, "syntax error (502)"),
    503: _is(FaultKind.PERMANENT, "command invalid (503)"),
    504: _is(FaultKind.PERMANENT, "channel error (504)"),
    505: _is(FaultKind.PERMANENT, "unexpected frame (505)"),
    506: _is(FaultKind.PERMANENT, "resource error (506)"),
    530: _is(FaultKind.PERMANENT, "not allowed (530)"),
    540: _is(FaultKind.PERMANENT, "not implemented (540)"),
    541: _is(FaultKind.AMBIGUOUS, "internal error of the broker (541)"),
}
_LOST = _is(FaultKind.AMBIGUOUS, "connection to the broker lost")
_OPEN_ANOTHER = _is(FaultKind.STALE, "channel or connection closed: open a new one")
_NOT_CONNECTED = _is(FaultKind.TRANSIENT, "cannot connect to the broker")
_HANDSHAKE_CUT = _is(FaultKind.TRANSIENT, "the broker closed the connection during the handshake")
_WRONG_LOGIN = _is(FaultKind.PERMANENT, "the broker does not accept the login")
_WRONG_HOST = _is(FaultKind.PERMANENT, "no access to the virtual host")
_FULL = _is(FaultKind.TRANSIENT, "the broker allows no more connections")
_UNROUTABLE = _is(FaultKind.PERMANENT, "message returned: no queue takes it")
_NACKED = _is(FaultKind.TRANSIENT, "the broker did not take the message (nack)")
_PROTOCOL = _is(FaultKind.PERMANENT, "AMQP protocol error")
_MISUSE = _is(FaultKind.PERMANENT, "local: AMQP client used in a wrong way")
_CANCELLED = _is(FaultKind.STALE, "the broker cancelled the consumer: subscribe again")


def _by_reply(exc: Any) -> Fault:
    """By the reply code, which pika and aiormq keep as the first argument and py-amqp as an attribute."""
    code = peek(exc, "reply_code")
    if code is None and exc.args:
        code = exc.args[0]
    return _REPLIES.get(code, _LOST) if isinstance(code, int) else _LOST


def _pika_connection(exc: Any) -> Fault:
    """While connecting, pika puts what went wrong into the arguments; else the connection broke in use."""
    held = exc.args[0] if exc.args else None
    return _pika_connector(held) if isinstance(held, BaseException) else _LOST


def _inner(exc: BaseException) -> Iterator[BaseException]:
    """What a connector's error holds: the error of its phase, or those of all its attempts, the last first."""
    for inner in (peek(exc, "exception"), *reversed(peek(exc, "exceptions") or ())):
        if isinstance(inner, Exception):
            yield inner
            yield from _inner(inner)


def _pika_connector(exc: BaseException) -> Fault:
    """Nothing was sent, whatever it was; but a certificate or a login stays wrong."""
    below = next((fault for inner in _inner(exc) if (fault := known_fault(inner))), None)
    return below if below is not None and below.kind is FaultKind.PERMANENT else _NOT_CONNECTED


def _pika_protocol(exc: Any) -> Fault:
    """A peer that hangs up at once is a broker that starts or stops, or a proxy without one behind it."""
    return _HANDSHAKE_CUT if _says(exc, "StreamLostError", "HeartbeatTimeout") else _PROTOCOL


def _pika_access(exc: Any) -> Fault:
    if _says(exc, "connection limit"):
        return _FULL
    return _NOT_CONNECTED if _says(exc, "(541)", "StreamLostError") else _WRONG_HOST


def _says(exc: BaseException, *words: str) -> bool:
    text = str(exc)
    return any(word in text for word in words)


def _aiormq_connection(exc: Any) -> Fault:
    """It is raised from, or while handling, what the socket said; without that the connection broke in use."""
    for link in chain(exc):
        if link is not exc and isinstance(link, OSError) and (fault := known_fault(link)) is not None:
            return fault if fault.kind is not FaultKind.AMBIGUOUS else _LOST
    return _LOST


def _aiormq_frame(exc: Any) -> Fault:
    """A broker that refuses the virtual host closes where aiormq expects it to agree."""
    return _WRONG_HOST if _says(exc, "Connection.OpenOk") else _PROTOCOL


def _delivery(exc: Any) -> Fault:
    """A message that came back (Basic.Return), or that the broker did not want (Basic.Nack, Basic.Reject)."""
    frame = peek(exc, "frame")
    code = peek(frame, "reply_code")
    if isinstance(code, int):
        return _REPLIES.get(code, _UNROUTABLE)
    return _NACKED


def _kombu_operational(exc: Any) -> Fault:
    """It stands for whatever the transport raised, which is its cause."""
    cause = exc.__cause__
    return (known_fault(cause) if isinstance(cause, Exception) else None) or _LOST


_PIKA: dict[str, Step] = {
    "AMQPError": _PROTOCOL,
    "AMQPConnectionError": _pika_connection,
    "ConnectionOpenAborted": _is(FaultKind.NEUTRAL, "given up by this process while connecting"),
    "StreamLostError": _LOST,
    "IncompatibleProtocolError": _pika_protocol,
    "AuthenticationError": _WRONG_LOGIN,
    "ProbableAuthenticationError": _WRONG_LOGIN,
    "ProbableAccessDeniedError": _pika_access,
    "NoFreeChannels": _is(FaultKind.PERMANENT, "local: no channel left on this connection"),
    "ConnectionWrongStateError": _OPEN_ANOTHER,
    "ConnectionClosed": _by_reply,
    "ConnectionBlockedTimeout": _is(
        FaultKind.AMBIGUOUS, "blocked by the broker until the connection timed out"
    ),
    "AMQPHeartbeatTimeout": _is(FaultKind.AMBIGUOUS, "heartbeats of the broker timed out"),
    "AMQPChannelError": _MISUSE,
    "ChannelWrongStateError": _OPEN_ANOTHER,
    "ChannelClosed": _by_reply,
    "ConsumerCancelled": _CANCELLED,
    "DuplicateConsumerTag": _MISUSE,
    "UnroutableError": _UNROUTABLE,
    "NackError": _NACKED,
    "ChannelError": _MISUSE,
    "ReentrancyError": _MISUSE,
}
_CONNECTOR: dict[str, Step] = {
    "AMQPConnectorException": _NOT_CONNECTED,
    "AMQPConnectorStackTimeout": _is(FaultKind.TRANSIENT, "connecting to the broker timed out"),
    "AMQPConnectorPhaseErrorBase": _pika_connector,
    "AMQPConnectionWorkflowFailed": _pika_connector,
    "AMQPConnectorAborted": _is(FaultKind.NEUTRAL, "given up by this process while connecting"),
    "AMQPConnectionWorkflowAborted": _is(FaultKind.NEUTRAL, "given up by this process while connecting"),
    "AMQPConnectorWrongState": _MISUSE,
    "AMQPConnectionWorkflowWrongState": _MISUSE,
}
_AIORMQ: dict[str, Step] = {
    "AMQPError": _PROTOCOL,
    "AMQPConnectionError": _aiormq_connection,
    "IncompatibleProtocolError": _PROTOCOL,
    "AuthenticationError": _WRONG_LOGIN,
    "ProbableAuthenticationError": _WRONG_LOGIN,
    "ConnectionClosed": _by_reply,
    "ConnectionFrameError": _REPLIES[501],
    "ConnectionSyntaxError": _REPLIES[502],
    "ConnectionCommandInvalid": _REPLIES[503],
    "ConnectionChannelError": _REPLIES[504],
    "ConnectionUnexpectedFrame": _REPLIES[505],
    "ConnectionResourceError": _REPLIES[506],
    "ConnectionNotAllowed": _REPLIES[530],
    "ConnectionNotImplemented": _REPLIES[540],
    "ConnectionInternalError": _REPLIES[541],
    "AMQPChannelError": _MISUSE,
    "ChannelClosed": _by_reply,
    "ChannelAccessRefused": _REPLIES[403],
    "ChannelNotFoundEntity": _REPLIES[404],
    "ChannelLockedResource": _REPLIES[405],
    "ChannelPreconditionFailed": _REPLIES[406],
    "ChannelInvalidStateError": _OPEN_ANOTHER,
    "DuplicateConsumerTag": _MISUSE,
    "InvalidFrameError": _aiormq_frame,
    "DeliveryError": _delivery,
    "PublishError": _delivery,
}
_PY_AMQP: dict[str, Step] = {
    "AMQPError": _by_reply,
    "MessageNacked": _NACKED,
    "Blocked": _is(FaultKind.THROTTLED, "blocked by the broker"),
    "ConsumerCancelled": _CANCELLED,
}
_KOMBU: dict[str, Step] = {
    "OperationalError": _kombu_operational,
    "LimitExceeded": _is(FaultKind.TRANSIENT, "local: no connection or channel left in the pool"),
    "InconsistencyError": _is(FaultKind.STALE, "data or environment of the queue is inconsistent"),
    "KombuError": _MISUSE,
}

RULES: dict[str, Step] = {
    **{f"pika.exceptions.{name}": step for name, step in _PIKA.items()},
    **{f"pika.adapters.utils.connection_workflow.{name}": step for name, step in _CONNECTOR.items()},
    **{f"aiormq.exceptions.{name}": step for name, step in _AIORMQ.items()},
    "aio_pika.exceptions.QueueEmpty": _is(FaultKind.PERMANENT, "queue empty"),
    "aio_pika.exceptions.MessageProcessError": _MISUSE,
    **{f"amqp.exceptions.{name}": step for name, step in _PY_AMQP.items()},
    **{f"kombu.exceptions.{name}": step for name, step in _KOMBU.items()},
}
