from __future__ import annotations

import io
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import boto3.exceptions
import botocore.errorfactory
import botocore.eventstream
import botocore.exceptions as aws
import pytest
import s3transfer.exceptions

from perdure.faults import Fault, FaultKind, classify, hints
from perdure.faults.signal import Signal, signal_of

if TYPE_CHECKING:
    from collections.abc import Iterable

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)
NOW = 1_800_000_000.0


def client_error(
    code: str, status: int = 400, operation: str = "GetThing", *, cls: Any = aws.ClientError, **headers: str
) -> aws.ClientError:
    metadata = {
        "HTTPStatusCode": status,
        "HTTPHeaders": {name.replace("_", "-").lower(): value for name, value in headers.items()},
        "RetryAttempts": 0,
    }
    error = {"Code": code, "Message": "no"}
    made: aws.ClientError = cls({"Error": error, "ResponseMetadata": metadata}, operation)
    return made


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        *(
            (400, code, R)
            for code in (
                *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException"),
                *("RequestThrottled", "TooManyRequestsException", "ProvisionedThroughputExceededException"),
                *("TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded"),
                *("LimitExceededException", "PriorRequestNotComplete", "EC2ThrottledException"),
                "KMSThrottlingException",
            )
        ),
        (503, "SlowDown", R),
        (503, "ServiceUnavailable", R),
        (400, "RequestTimeout", T),
        (400, "RequestTimeoutException", T),
        (400, "IDPCommunicationError", T),
        (400, "BadDigest", T),
        (400, "XAmzContentSHA256Mismatch", T),
        (409, "OperationAborted", T),
        (409, "ConditionalRequestConflict", T),
        (400, "TransactionConflictException", T),
        (500, "InternalError", A),
        (500, "InternalFailure", A),
        (500, "InternalServerException", A),
        (502, "Unknown", A),
        (503, "503", A),
        (504, "504", A),
        (429, "429", R),
        (403, "RequestTimeTooSkewed", S),
        (400, "RequestExpired", S),
        (400, "ExpiredToken", S),
        (403, "ExpiredTokenException", S),
        (400, "TokenRefreshRequired", S),
        (403, "AccessDenied", P),
        (400, "AccessDeniedException", P),
        (400, "ValidationException", P),
        (400, "ValidationError", P),
        (400, "ResourceNotFoundException", P),
        (404, "NoSuchKey", P),
        (400, "UnrecognizedClientException", P),
        (400, "ServiceQuotaExceededException", P),
        (400, "ConditionalCheckFailedException", P),
        (409, "LimitExceeded", P),  # IAM
        (409, "BucketAlreadyExists", P),
        (412, "PreconditionFailed", P),
        (501, "NotImplemented", P),
    ],
)
def test_a_code_outranks_its_status(status: int, code: str, kind: FaultKind) -> None:
    fault = classify(client_error(code, status))
    assert fault.kind is kind
    assert fault.why.startswith(f"HTTP {status}")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "ThrottlingException", R),
        (429, "ModelNotReadyException", T),
        (408, "ModelTimeoutException", A),
        (503, "ServiceUnavailableException", R),
        (424, "ModelStreamErrorException", A),
        (424, "ModelErrorException", A),
        (400, "ServiceQuotaExceededException", P),
        (500, "InternalServerException", A),
        (400, "ValidationException", P),
        (403, "AccessDeniedException", P),
    ],
)
def test_bedrock_before_and_inside_a_stream(status: int, code: str, kind: FaultKind) -> None:
    before = client_error(code, status, "InvokeModelWithResponseStream")
    # Inside a stream there is no status, and event types begin in lower case.
    error = {"Error": {"Code": code[0].lower() + code[1:], "Message": "no"}}
    inside = aws.EventStreamError(error, "InvokeModelWithResponseStream")
    assert [classify(before).kind, classify(inside).kind] == [kind, kind]


def test_classes_made_by_a_client_count_as_the_client_error() -> None:
    made = type(
        "ThrottlingException", (botocore.errorfactory.ClientError,), {"__module__": "botocore.errorfactory"}
    )
    assert classify(client_error("ThrottlingException", cls=made)).kind is R


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        # A hard quota: one more user, key or policy.
        ("CreateKey", P),
        ("CreateRole", P),
        ("AttachRolePolicy", P),
        ("PutRolePolicy", P),
        ("AddUserToGroup", P),
        # A pace: DynamoDB's control plane, Kinesis.
        ("CreateTable", R),
        ("UpdateTable", R),
        ("DescribeStream", R),
        ("CreateStream", R),
        ("ListShards", R),
        ("UpdateShardCount", R),
        ("GetThing", R),
    ],
)
def test_limit_exceeded_means_a_quota_or_a_pace(operation: str, kind: FaultKind) -> None:
    assert classify(client_error("LimitExceededException", 400, operation)).kind is kind


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"])
@pytest.mark.parametrize(
    ("skew", "kind"), [(0, P), (299, P), (301, S), (-301, S), (-299, P), (86_400, S), (None, P)]
)
def test_a_bad_signature_is_a_wrong_clock_only_when_the_date_says_so(
    monkeypatch: pytest.MonkeyPatch, code: str, skew: int | None, kind: FaultKind
) -> None:
    """B099."""
    monkeypatch.setattr(hints, "wall_clock", lambda: NOW)
    headers = {} if skew is None else {"Date": formatdate(NOW + skew, usegmt=True)}
    assert classify(client_error(code, 403, **headers)).kind is kind


def test_the_delay_is_in_milliseconds() -> None:
    assert classify(client_error("ThrottlingException", 400, X_Amz_Retry_After="1500")).hint == 1.5
    assert classify(client_error("ServiceUnavailable", 503, X_Amz_Retry_After="1500")).hint == 1.5
    assert classify(client_error("ServiceUnavailable", 503, X_Amz_Retry_After="soon")).hint is None
    assert classify(client_error("ValidationException", 400, X_Amz_Retry_After="1500")).hint is None


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        (["None", "TransactionConflict"], T),
        (["TransactionConflict", "ThrottlingError"], R),
        (["ProvisionedThroughputExceeded"], R),
        (["TransactionConflict", "ConditionalCheckFailed"], P),
        (["ValidationError"], P),
        (["None"], P),
        ([], P),
    ],
)
def test_a_cancelled_transaction_goes_by_the_reasons_of_its_items(
    reasons: Iterable[str], kind: FaultKind
) -> None:
    error = client_error("TransactionCanceledException", 400, "TransactWriteItems")
    error.response["CancellationReasons"] = [{"Code": code} for code in reasons]
    assert classify(error).kind is kind


@pytest.mark.parametrize("word", ["", "Retry", 7, None])
def test_an_operation_without_a_name_meets_a_pace(word: Any) -> None:
    assert classify(client_error("LimitExceededException", 400, word)).kind is R


@pytest.mark.parametrize("response", [{}, {"Error": {}}, {"Error": {"Code": 7}}, {"ResponseMetadata": {}}])
def test_an_error_that_says_nothing_is_permanent(response: Any) -> None:
    assert classify(aws.ClientError(response, "GetThing")) == Fault(P, None, "AWS error without a code")


def test_a_refusal_is_an_answer_for_the_breaker() -> None:
    error = client_error("NoSuchKey", 404)
    assert signal_of(error, classify(error), wanted=False) is Signal.ANSWER


# -- no answer -------------------------------------------------------------------------------------------------

URL = {"endpoint_url": "http://host.test/"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aws.EndpointConnectionError(**URL), T),
        (aws.ConnectTimeoutError(**URL), T),
        (aws.ProxyConnectionError(proxy_url="http://proxy.test/"), T),
        (aws.ConnectionError(error="x"), T),
        (aws.MetadataRetrievalError(error_msg="x"), T),
        (aws.ReadTimeoutError(**URL), A),
        (aws.ConnectionClosedError(**URL), A),
        (aws.ResponseStreamingError(error="x"), A),
        (aws.IncompleteReadError(actual_bytes=1, expected_bytes=2), A),
        (aws.ChecksumError(checksum_type="x", expected_checksum="1", actual_checksum="2"), A),
        (aws.FlexibleChecksumError(error_msg="x"), A),
        (aws.HTTPClientError(error="x"), A),
        (aws.HTTPClientError(error=ConnectionRefusedError()), T),
        (aws.HTTPClientError(error=TypeError()), P),
        (aws.SSLError(error="x", **URL), P),
        (aws.NoCredentialsError(), P),
        (aws.PartialCredentialsError(provider="x", cred_var="y"), P),
        (aws.ParamValidationError(report="x"), P),
        (aws.NoRegionError(), P),
        (aws.UnauthorizedSSOTokenError(), S),
        (aws.CapacityNotAvailableError(), N),
        (botocore.eventstream.ChecksumMismatch(1, 2), A),
        (botocore.eventstream.NoInitialResponseError(), A),
        (boto3.exceptions.RetriesExceededError(aws.ReadTimeoutError(**URL)), A),
        (boto3.exceptions.RetriesExceededError(client_error("SlowDown", 503)), R),
        (s3transfer.exceptions.RetriesExceededError(aws.EndpointConnectionError(**URL)), T),
        (s3transfer.exceptions.RetriesExceededError(Exception("x")), A),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_errors_of_the_transport_and_of_the_caller(error: Exception, kind: FaultKind) -> None:
    fault = classify(error)
    assert fault.kind is kind
    assert fault.why


@pytest.mark.parametrize("error", [aws.ReadTimeoutError(**URL), aws.ConnectTimeoutError(**URL)])
def test_timeouts_are_congestion(error: Exception) -> None:
    assert signal_of(error, classify(error), wanted=True) is Signal.OVERLOAD


@pytest.mark.parametrize(
    "error", [aws.NoCredentialsError(), aws.ParamValidationError(report="x"), aws.NoRegionError()]
)
def test_what_botocore_refuses_says_nothing_of_the_service(error: Exception) -> None:
    assert signal_of(error, classify(error), wanted=False) is Signal.NEUTRAL


def test_an_upload_that_failed_is_as_the_error_under_it() -> None:
    def upload() -> None:
        try:
            raise client_error("AccessDenied", 403)
        except aws.ClientError as error:
            raise boto3.exceptions.S3UploadFailedError(f"failed: {error}") from error

    with pytest.raises(boto3.exceptions.S3UploadFailedError) as caught:
        upload()
    assert classify(caught.value).kind is P


def test_a_stream_that_says_it_is_overloaded_begins_with_200() -> None:
    """The error comes as an event; the status was read long before."""
    from botocore.awsrequest import AWSResponse

    assert AWSResponse("http://host.test/", 200, {}, io.BytesIO()).status_code == 200
    error = aws.EventStreamError(
        {"Error": {"Code": "throttlingException", "Message": "no"}}, "ConverseStream"
    )
    assert classify(error) == Fault(R, None, "AWS throttlingException")
