"""AWS by error code: exceptions of `botocore`, `boto3` and `s3transfer`."""

from __future__ import annotations

from perdure.faults.codes import plain
from perdure.faults.documents import fields
from perdure.faults.hints import retry_after
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import RETRIED, Fault, FaultKind
from perdure.faults.rules import fault_held
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_OWN: dict[str, FaultKind] = {
    **dict.fromkeys(
        map(plain, ("ServiceUnavailable", "ServiceUnavailableException", "KMSThrottlingException")),
        FaultKind.THROTTLED,
    ),
    **dict.fromkeys(
        map(
            plain,
            (
                *("OperationAborted", "ConditionalRequestConflict", "TransactionConflictException"),
                *("BadDigest", "XAmzContentSHA256Mismatch", "ReplicatedWriteConflictException"),
            ),
        ),
        FaultKind.TRANSIENT,
    ),
    **dict.fromkeys(
        map(
            plain,
            (
                *("InternalError", "InternalFailure", "InternalServerError", "InternalServerException"),
                *("ModelTimeoutException", "ModelStreamErrorException", "ModelErrorException"),
            ),
        ),
        FaultKind.AMBIGUOUS,
    ),
}
"""The codes of AWS beyond those that any service may send, which `codes.CODES` has."""

_LIMIT_EXCEEDED = plain("LimitExceededException")
_IAM_LIMIT = "LimitExceeded"
_MAKES = ("Create", "Put", "Add", "Attach", "Register", "Import", "Allocate", "Run", "Upload", "Tag")
_PACED = (
    "Table",
    "Tables",
    "Stream",
    "Streams",
    "Shard",
    "Shards",
    "ShardCount",
    "Backup",
    "Import",
    "Export",
)
_LONGEST_CODE = 100
_CANCELED = plain("TransactionCanceledException")


def _client_error(exc: Any) -> Fault:
    response = fields(peek(exc, "response"))
    error, metadata = fields(response.get("Error")), fields(response.get("ResponseMetadata"))
    code = error.get("Code")
    status, headers = metadata.get("HTTPStatusCode"), metadata.get("HTTPHeaders")
    if not isinstance(status, int) or status < 400:
        # An event inside a stream that began with 200, or an answer that botocore read an error out of.
        return _worded(_by_code(exc, code, 400, headers), f"AWS {_shown(code)}")
    return _by_code(exc, code, status, headers)


def _by_code(exc: Any, code: object, status: int, headers: object) -> Fault:
    word = plain(code)
    kind = _OWN.get(word)
    if word == _LIMIT_EXCEEDED and (code == _IAM_LIMIT or _is_quota(peek(exc, "operation_name"))):
        kind = FaultKind.PERMANENT
    if word == _CANCELED:
        kind = _of_transaction(fields(peek(exc, "response")))
    if kind is None:
        return fault_of_status(status, headers, None, {"code": code})
    hint = retry_after(headers) if kind in RETRIED else None
    return Fault(kind, hint, f"HTTP {status} {_shown(code)}")


def _is_quota(operation: object) -> bool:
    """Whether LimitExceededException means a hard quota (IAM, KMS) and not a pace (DynamoDB tables, Kinesis).

    No field tells them apart. What makes one more of something meets a quota; operations on tables and shards have
    a pace, whatever they do.
    """
    if not isinstance(operation, str):
        return False
    return operation.startswith(_MAKES) and not operation.endswith(_PACED)


def _of_transaction(response: dict[str, Any]) -> FaultKind:
    """DynamoDB cancels for the reasons of single items: retried when all of them pass with time."""
    reasons: list[Any] = response.get("CancellationReasons") or []
    codes = {fields(reason).get("Code") for reason in reasons}
    kinds = {_TRANSACTION.get(str(code), FaultKind.PERMANENT) for code in codes - {"None", None}}
    if not kinds or FaultKind.PERMANENT in kinds:
        return FaultKind.PERMANENT
    return FaultKind.THROTTLED if FaultKind.THROTTLED in kinds else FaultKind.TRANSIENT


_TRANSACTION = {
    "TransactionConflict": FaultKind.TRANSIENT,
    "ThrottlingError": FaultKind.THROTTLED,
    "ProvisionedThroughputExceeded": FaultKind.THROTTLED,
}


def _shown(code: object) -> str:
    return code[:_LONGEST_CODE] if isinstance(code, str) else "error without a code"


def _worded(fault: Fault, why: str) -> Fault:
    return Fault(fault.kind, fault.hint, why)


def _http_client_error(exc: Any) -> Fault:
    """Something else went wrong in the transport: `error` is what, and bytes may have left."""
    return fault_held(exc, fields(peek(exc, "kwargs")).get("error")) or _perhaps("transport failed")


def _retries_exceeded(exc: Any) -> Fault:
    return fault_held(exc, peek(exc, "last_exception")) or _perhaps("transfer gave up")


def _not_sent(why: str) -> Fault:
    return Fault(FaultKind.TRANSIENT, None, why)


def _perhaps(why: str) -> Fault:
    return Fault(FaultKind.AMBIGUOUS, None, why)


def _stale(why: str) -> Fault:
    return Fault(FaultKind.STALE, None, why)


_IN_BOTOCORE: dict[str, Step] = {
    "ClientError": _client_error,
    "EventStreamError": _client_error,
    "ConnectionError": _not_sent("not connected"),
    "EndpointConnectionError": _not_sent("endpoint not reached"),
    "ConnectTimeoutError": _not_sent("connect timed out"),
    "ProxyConnectionError": _not_sent("proxy not reached"),
    "MetadataRetrievalError": _not_sent("instance metadata not reached"),
    "HTTPClientError": _http_client_error,
    "ReadTimeoutError": _perhaps("read timed out"),
    "ConnectionClosedError": _perhaps("connection closed without an answer"),
    "ResponseStreamingError": _perhaps("response body cut short"),
    "IncompleteReadError": _perhaps("response body cut short"),
    "ChecksumError": _perhaps("response body damaged"),
    "FlexibleChecksumError": _perhaps("response body damaged"),
    "UnauthorizedSSOTokenError": _stale("sign-in has expired"),
    "LoginRefreshRequired": _stale("sign-in has expired"),
    "CapacityNotAvailableError": Fault(FaultKind.NEUTRAL, None, "held back by botocore's own rate limit"),
    "SSLError": Fault(FaultKind.PERMANENT, None, "local: TLS failed"),
    # Credentials, parameters, regions, configuration: nothing is sent, and nothing changes by itself.
    "BotoCoreError": Fault(FaultKind.PERMANENT, None, "local: botocore refused the call"),
}

RULES: dict[str, Step] = {
    **{f"botocore.exceptions.{name}": step for name, step in _IN_BOTOCORE.items()},
    "botocore.eventstream.ChecksumMismatch": _perhaps("event stream damaged"),
    "botocore.eventstream.ParserError": _perhaps("event stream damaged"),
    "botocore.eventstream.NoInitialResponseError": _perhaps("event stream ended before it began"),
    "boto3.exceptions.RetriesExceededError": _retries_exceeded,
    "s3transfer.exceptions.RetriesExceededError": _retries_exceeded,
}
