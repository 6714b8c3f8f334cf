"""What the codes in answers mean that come under a good status, and how a fault is made of one."""

from __future__ import annotations

import re

from perdure.faults.bodies import code_in
from perdure.faults.codes import plain
from perdure.faults.documents import fields
from perdure.faults.hints import asked_delay
from perdure.faults.kinds import RETRIED, Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from perdure.content.rules import Reply

__all__ = ["failure", "gravest", "kind_of", "kind_of_error", "shown"]

_CAUTION = ("permanent", "neutral", "ambiguous", "stale", "throttled", "transient")

_KINDS: dict[str, FaultKind] = {
    plain(code): kind
    for kind, codes in {
        FaultKind.THROTTLED: "THROTTLED RATE_LIMITED RATELIMITED RESOURCE_EXHAUSTED TOO_MANY_REQUESTS SlowDown",
        FaultKind.TRANSIENT: "UNAVAILABLE SERVICE_UNAVAILABLE ABORTED",
        FaultKind.AMBIGUOUS: (
            "INTERNAL_SERVER_ERROR server_error api_error INTERNAL InternalFailure backendError BAD_GATEWAY "
            "DOWNSTREAM_SERVICE_ERROR TIMEOUT timeout_error GATEWAY_TIMEOUT REQUEST_TIMED_OUT DEADLINE_EXCEEDED "
            "UNKNOWN CANCELLED"
        ),
        FaultKind.STALE: "UNAUTHENTICATED UNAUTHORIZED authentication_error",
        FaultKind.PERMANENT: (
            "BAD_USER_INPUT BAD_REQUEST GRAPHQL_VALIDATION_FAILED GRAPHQL_PARSE_FAILED FORBIDDEN NOT_FOUND "
            "OPERATION_RESOLUTION_FAILURE PERSISTED_QUERY_NOT_SUPPORTED MAX_COST_EXCEEDED INVALID_ARGUMENT "
            "invalid_request_error permission_error PERMISSION_DENIED not_found_error FAILED_PRECONDITION "
            "ALREADY_EXISTS OUT_OF_RANGE UNIMPLEMENTED DATA_LOSS request_too_large"
        ),
    }.items()
    for code in codes.split()
}
"""Beyond `faults.codes`: under an error status these say nothing new, here they are all there is."""

_STRANGE = re.compile(r"[^A-Za-z0-9_.:#/ -]")


def kind_of(code: object) -> FaultKind | None:
    """Give what a code means; None when it is not known."""
    known = code_in(200, None, None, {"code": code})
    return _KINDS.get(plain(code)) if known is None else known[0]


def kind_of_error(reply: Reply, error: Any) -> tuple[FaultKind | None, str]:
    """Give what an error object of a JSON document means, and its code."""
    known = code_in(reply.status, reply.headers, None, {"error": error})
    if known is not None:
        return known
    own = fields(error) or {"code": error}
    codes = [str(code) for name in ("code", "type", "status", "reason") if plain(code := own.get(name))]
    for code in codes:
        if (kind := _KINDS.get(plain(code))) is not None:
            return kind, code
    return None, codes[0] if codes else ""


def failure(reply: Reply, kind: FaultKind, what: str, document: object = None) -> Fault:
    """Make the fault of an answer; `what` says what failed. A delay is looked for where it has a meaning."""
    delay = asked_delay(reply.headers, body=document) if kind in RETRIED else None
    return Fault(kind, delay or None, f"HTTP {reply.status}, {what}")


def gravest(faults: Iterable[Fault]) -> Fault | None:
    """Give the fault that asks for most caution, with the longest of the delays."""
    found = list(faults)
    if not found:
        return None
    first = min(found, key=lambda fault: _CAUTION.index(fault.kind))
    hints = [fault.hint for fault in found if fault.hint is not None]
    return Fault(first.kind, max(hints), first.why) if hints and first.kind in RETRIED else first


def shown(code: object) -> str:
    """Give a code for people: short, and without what could disturb a log."""
    return _STRANGE.sub("?", str(code)[:60])
