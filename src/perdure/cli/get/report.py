"""A download told to programs; as ``perdure.cli.report``, with a schema of its own."""

from __future__ import annotations

from perdure.cli.get.redact import shown
from perdure.cli.report import ending_fields, rounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.get.record import Attempt, Ending, Request

__all__ = ["SCHEMA", "as_report", "attempt_fields"]

SCHEMA = "perdure.get/1"


def as_report(
    request: Request, ending: Ending, attempts: list[Attempt], *, began: float, made: int
) -> dict[str, object]:
    """The whole run as one object ready for JSON. Times are seconds; ``started_at`` counts from 1970.

    ``attempts`` are the last ones, ``attempts_made`` counts them all.
    """
    policy, checksum = request.policy, request.checksum
    return {
        "schema": SCHEMA,
        "urls": [shown(url) for url in request.urls],
        "method": request.method,
        "output": request.output,
        **ending_fields(ending, began),
        "size": ending.size,
        "received": ending.received,
        "resumed_from": ending.resumed_from,
        "checksum": None if checksum is None else f"{checksum.algorithm}:{checksum.digest}",
        "idempotency_key": request.idempotency_key,
        "policy": {
            "attempts": policy.attempts,
            "backoff": repr(policy.backoff),
            "deadline": request.deadline,
            "attempt_timeout": policy.attempt_timeout,
            "hint_cap": policy.hint_cap,
        },
        "attempts_made": made,
        "attempts": [attempt_fields(one) for one in attempts],
    }


def attempt_fields(attempt: Attempt) -> dict[str, object]:
    """One attempt as an object; ``delay`` is the wait after it, None where none followed."""
    fault, ended = attempt.fault, attempt.ended
    return {
        "attempt": attempt.number,
        "round": attempt.round,
        "url": attempt.url,
        "hedge": attempt.hedge,
        "started": rounded(attempt.started),
        "connected": rounded(attempt.connected),
        "first_byte": rounded(attempt.first_byte),
        "duration": None if ended is None else rounded(ended - attempt.started),
        "status": attempt.status,
        "offset": attempt.offset,
        "bytes": attempt.received,
        "result": attempt.result,
        "timed_out": attempt.timed_out,
        "fault": None if fault is None else fault.kind.value,
        "reason": None if fault is None else fault.why,
        "hint": None if fault is None else rounded(fault.hint),
        "delay": rounded(attempt.delay),
    }
