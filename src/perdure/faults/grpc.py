"""gRPC by status code: exceptions of `grpc` and `grpc.aio`, and the delays in trailers and status details."""

from __future__ import annotations

from perdure.faults.delays import LONGEST, plain
from perdure.faults.kinds import RETRIED, Fault, FaultKind
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_code", "fault_of_rpc"]

_KINDS: dict[str, FaultKind] = {
    "CANCELLED": FaultKind.AMBIGUOUS,
    "UNKNOWN": FaultKind.AMBIGUOUS,
    "DEADLINE_EXCEEDED": FaultKind.AMBIGUOUS,
    "INTERNAL": FaultKind.AMBIGUOUS,
    "RESOURCE_EXHAUSTED": FaultKind.THROTTLED,
    "UNAVAILABLE": FaultKind.TRANSIENT,
    "ABORTED": FaultKind.TRANSIENT,
    "UNAUTHENTICATED": FaultKind.STALE,
}
"""AIP-194 and gRFC A6; what is not here is permanent."""

_MORE = {
    "DEADLINE_EXCEEDED": ": timed out",  # the words by which the breaker and the gate know a timeout
    "ABORTED": ": run the whole transaction again",
}

_PUSHBACK = "grpc-retry-pushback-ms"
_DETAILS = "grpc-status-details-bin"
_READ = (_PUSHBACK, _DETAILS)
_LIMIT = 65_536
_SOON = 3_600.0
"""Seconds: a quota of a day that is back within the hour is a throttle."""

_OWN_CANCEL = ("Locally cancelled by application!", "Cancelled upon garbage collection!")
"""Constants of the library, never translated; a server cannot be told apart from the caller by the code."""


def fault_of_rpc(exc: Any) -> Fault | None:
    """Classify a failed call by its code and trailers; None when `exc` has no code."""
    code = _name(_asked(exc, "code"))
    if code is None:
        return None
    if code == "CANCELLED" and (_asked(exc, "cancelled") is True or _asked(exc, "details") in _OWN_CANCEL):
        return Fault(FaultKind.NEUTRAL, None, "gRPC CANCELLED by the caller")
    if code == "UNAVAILABLE" and _asked(exc, "initial_metadata"):
        return Fault(FaultKind.AMBIGUOUS, None, "gRPC UNAVAILABLE: cut after the answer began")
    return fault_of_code(code, _asked(exc, "trailing_metadata"))


def fault_of_code(code: str, trailers: object = None) -> Fault:
    """Classify the name of a status code with the trailing metadata that came with it (pairs)."""
    kind = _KINDS.get(code, FaultKind.PERMANENT)
    why = f"gRPC {code}{_MORE.get(code, '')}"
    if kind not in RETRIED or not trailers:
        return Fault(kind, None, why)
    found = _read(trailers)
    pushback = found.get(_PUSHBACK)
    if pushback is not None:  # gRFC A6: negative and malformed values both mean "do not retry"
        delay = _milliseconds(pushback)
        if delay is None:
            return Fault(FaultKind.PERMANENT, None, f"{why}, and the server said not to retry")
        return Fault(kind, delay or None, why)
    delay, is_daily = _details(found.get(_DETAILS))
    if is_daily and (delay is None or delay > _SOON):
        return Fault(FaultKind.PERMANENT, None, f"{why}: quota of the day is used up")
    return Fault(kind, delay or None, why)


def _asked(exc: object, method: str) -> Any:
    """What a method of a call says; None when it is missing, not to be called, or raises."""
    found = peek(exc, method)
    try:
        return found() if callable(found) else None
    except Exception:  # noqa: BLE001 - a foreign object; a call that is not over has no answer yet
        return None


def _name(code: object) -> str | None:
    name = peek(code, "name")
    return name if isinstance(name, str) else None


def _read(trailers: Any) -> dict[str, str | bytes]:
    try:
        pairs: list[tuple[Any, Any]] = list(trailers)
        return {key: value for key, value in pairs if key in _READ and isinstance(value, (str, bytes))}
    except Exception:  # noqa: BLE001 - trailers of a foreign make
        return {}


def _milliseconds(value: str | bytes) -> float | None:
    delay = plain((value.decode("latin-1") if isinstance(value, bytes) else value).strip(" \t"))
    return None if delay is None else delay / 1000


# -- google.rpc.Status -----------------------------------------------------------------------------------
# Read by hand, so that it needs no protobuf: pairs of field number and value, see protobuf.dev/encoding.


def _details(data: object) -> tuple[float | None, bool]:
    """The delay of a RetryInfo in the status details, and whether a QuotaFailure names a quota per day."""
    delay, is_daily = None, False
    for detail in _messages(data, 3):
        members = dict(_fields(detail))
        name, value = members.get(1), members.get(2)
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            continue
        if name.endswith(b"/google.rpc.RetryInfo"):
            delay = _duration(dict(_fields(value)).get(1))
        elif name.endswith(b"/google.rpc.QuotaFailure"):
            ids = (dict(_fields(violation)).get(5) for violation in _messages(value, 1))
            is_daily = any(isinstance(quota, bytes) and b"PerDay" in quota for quota in ids)
    return delay, is_daily


def _duration(data: object) -> float | None:
    members = dict(_fields(data))
    seconds, nanos = members.get(1, 0), members.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or seconds >= 1 << 63 or nanos >= 10**9:
        return None  # a negative int64 is the varint of its two's complement
    return min(seconds + nanos / 1e9, LONGEST)


def _messages(data: object, number: int) -> Iterator[bytes]:
    return (value for field, value in _fields(data) if field == number and isinstance(value, bytes))


def _fields(data: object) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message; ends at the first byte that makes no sense."""
    if not isinstance(data, bytes) or len(data) > _LIMIT:
        return
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            if at > len(data):
                return
            yield tag >> 3, value
            continue
        size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, _LIMIT + 1), at)
        if at + size > len(data):
            return
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; past the end of the data when it is cut or too long."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    return 0, len(data) + 1


RULES: dict[str, Step] = {
    "grpc.RpcError": fault_of_rpc,
    "grpc.FutureTimeoutError": Fault(FaultKind.AMBIGUOUS, None, "timed out waiting for a gRPC future"),
    "grpc.FutureCancelledError": Fault(FaultKind.NEUTRAL, None, "gRPC future cancelled"),
    "grpc.aio._base_call.UsageError": Fault(FaultKind.PERMANENT, None, "local: gRPC call used wrongly"),
    "grpc._channel._InactiveRpcError": fault_of_rpc,
    "grpc._channel._MultiThreadedRendezvous": fault_of_rpc,
    "grpc._channel._SingleThreadedRendezvous": fault_of_rpc,
    "grpc.aio._call.AioRpcError": fault_of_rpc,
}
