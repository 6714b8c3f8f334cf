"""Kafka by protocol error code: exceptions of `aiokafka`, `kafka` (kafka-python) and `confluent_kafka`."""

from __future__ import annotations

from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_KINDS = {
    # Refused before anything was done, or metadata that the client renews by itself.
    **dict.fromkeys(
        (2, 3, 5, 6, 8, 9, 14, 15, 16, 19, 41, 51, 56, 70, 71, 72, 74, 75, 78), FaultKind.TRANSIENT
    ),
    **dict.fromkeys((80, 83, 84, 88, 100, 103, 106, 122, 123), FaultKind.TRANSIENT),
    89: FaultKind.THROTTLED,
    # No answer came in time, or (20) the record is stored, but not as often as was asked for.
    **dict.fromkeys((-1, 7, 13, 20), FaultKind.AMBIGUOUS),
    # The member has to join the group again, the transaction to begin again, the token to be renewed.
    **dict.fromkeys((22, 25, 27, 66, 79, 110, 113, 120), FaultKind.STALE),
}
"""By error code of the protocol; what is not here is permanent."""

_LIBRDKAFKA = {
    # -166 timed out in the queue, -184 queue full, -187 all brokers down, -193 host name
    **dict.fromkeys((-146, -153, -163, -164, -166, -177, -180, -182, -183, -184), FaultKind.TRANSIENT),
    **dict.fromkeys((-187, -193, -194), FaultKind.TRANSIENT),
    # -185 timed out, -192 message timed out, -195 transport, -199 damaged, -151 purged in flight
    **dict.fromkeys((-151, -185, -192, -195, -199), FaultKind.AMBIGUOUS),
    # -142 assignment lost, -147 polled too seldom
    **dict.fromkeys((-142, -147), FaultKind.STALE),
    # -141 nothing to do, -152 purged, -178 in progress, -191 end of the partition, -197 closing
    **dict.fromkeys((-141, -152, -178, -191, -197), FaultKind.NEUTRAL),
}
"""By client error code of librdkafka, which the protocol's codes go on from."""


def _by_code(exc: Any) -> Fault:
    code = peek(exc, "errno")
    name = type(exc).__name__
    if not isinstance(code, int):
        return Fault(FaultKind.PERMANENT, None, f"Kafka {name}")
    return _coded(_KINDS.get(code, FaultKind.PERMANENT), code, name)


def _coded(kind: FaultKind, code: int, name: object) -> Fault:
    timed_out = ", timed out" if code in _TIMEOUTS else ""  # which is a sign of congestion
    here = "local: " if code in _HERE else ""
    return Fault(kind, None, f"{here}Kafka error {code} ({name}){timed_out}")


_TIMEOUTS = (7, -166, -185, -192)
_HERE = (-157, -160, -159, -161, -162, -172, -184, -186)  # queue full, wrong argument, state or serializer


def _confluent(exc: Any) -> Fault:
    """Fatal errors and transactions to abort outrank the code; unknown codes go by the library's own word."""
    error = exc.args[0] if exc.args else None
    code = _answer(error, "code")
    if not isinstance(code, int):
        return _OTHER
    kind = _LIBRDKAFKA.get(code) or _KINDS.get(code)
    if _answer(error, "fatal") is True:
        kind = FaultKind.PERMANENT
    elif _answer(error, "txn_requires_abort") is True:
        kind = FaultKind.STALE
    elif kind is None:
        kind = FaultKind.TRANSIENT if _answer(error, "retriable") is True else FaultKind.PERMANENT
    return _coded(kind, code, _answer(error, "name"))


_OTHER = Fault(FaultKind.PERMANENT, None, "Kafka error")


def _answer(error: object, method: str) -> object:
    ask = peek(error, method)
    return ask() if callable(ask) else None


_UNCONNECTED = Fault(FaultKind.TRANSIENT, None, "cannot connect to a Kafka broker")
_LOST = Fault(FaultKind.AMBIGUOUS, None, "connection to the Kafka broker lost")
_NOT_SENT = (
    "nable to",
    "DNS",
    "not connected",
    "not ready",
    "Handshake",
    "during connect",
    "Connection timed out",
)


def _connection_error(exc: Any) -> Fault:
    text = str(exc)
    return _UNCONNECTED if any(words in text for words in _NOT_SENT) else _LOST


_STILL_HERE = Fault(FaultKind.TRANSIENT, None, "Kafka client timed out before it sent anything")
_TIMED_OUT = Fault(FaultKind.AMBIGUOUS, None, "waiting for Kafka timed out")
_BEFORE_SENDING = (
    "metadata",
    "allocate",
    "bootstrap",
    "Connection timed out",
    "ApiVersions",
    "SASL",
    "buffer",
)


def _timeout_error(exc: Any) -> Fault:
    text = str(exc)
    return _STILL_HERE if any(words in text for words in _BEFORE_SENDING) else _TIMED_OUT


_BY_CLASS: dict[str, Step] = {
    "KafkaConnectionError": _connection_error,
    "KafkaTimeoutError": _timeout_error,
    **dict.fromkeys(("NoBrokersAvailable", "KafkaUnavailableError", "MetadataEmptyBrokerList"), _UNCONNECTED),
    **dict.fromkeys(
        ("NodeNotReadyError", "StaleMetadata", "UnknownBrokerIdError"),
        Fault(FaultKind.TRANSIENT, None, "Kafka metadata or broker not ready"),
    ),
    "TooManyInFlightRequests": Fault(
        FaultKind.TRANSIENT, None, "local: too many requests in flight to the broker"
    ),
    **dict.fromkeys(("KafkaProtocolError", "CorrelationIdError", "InvalidReceiveError", "Cancelled"), _LOST),
    "CommitFailedError": Fault(FaultKind.STALE, None, "the consumer group was rebalanced: join it again"),
    **dict.fromkeys(
        ("IllegalArgumentError", "IllegalStateError", "KafkaConfigurationError", "ProducerClosed"),
        Fault(FaultKind.PERMANENT, None, "local: Kafka client used in a wrong way"),
    ),
    "QuotaViolationError": Fault(FaultKind.THROTTLED, None, "Kafka quota exceeded"),
    "RetriableError": Fault(FaultKind.AMBIGUOUS, None, "Kafka says that this may be retried"),
    "ThrottlingQuotaExceededError": _by_code,
}

_OF_THE_CLIENT = """
AuthenticationFailedError AuthenticationMethodNotSupported AuthorizationError IncompatibleBrokerVersion
InvalidMetadataError LogTruncationError NoOffsetForPartitionError ProducerFenced RecordTooLargeError
TransactionAbortedError UnrecognizedBrokerVersion UnsupportedCodecError
"""

# Every class by name: one that is not known is asked for its errno first, and the codes here are no errnos.
_OF_THE_BROKER = """
BrokerIdNotRegisteredError BrokerNotAvailableError BrokerResponseError ClusterAuthorizationFailedError
ConcurrentTransactions ConcurrentTransactionsError CoordinatorLoadInProgressError CoordinatorNotAvailableError
CorruptRecordError CorruptRecordException DelegationTokenAuthDisabled DelegationTokenAuthDisabledError
DelegationTokenAuthorizationFailed DelegationTokenAuthorizationFailedError DelegationTokenExpired
DelegationTokenExpiredError DelegationTokenNotFound DelegationTokenNotFoundError DelegationTokenOwnerMismatch
DelegationTokenOwnerMismatchError DelegationTokenRequestNotAllowed DelegationTokenRequestNotAllowedError
DuplicateBrokerRegistrationError DuplicateResourceError DuplicateSequenceNumber DuplicateSequenceNumberError
DuplicateVoterError ElectionNotNeededError EligibleLeadersNotAvailableError FeatureUpdateFailedError
FencedInstanceIdError FencedLeaderEpochError FencedMemberEpochError FencedStateEpochError FetchSessionIdNotFound
FetchSessionIdNotFoundError FetchSessionTopicIdError GroupAuthorizationFailedError
GroupCoordinatorNotAvailableError GroupIdNotFound GroupIdNotFoundError GroupLoadInProgressError
GroupMaxSizeReachedError GroupSubscribedToTopicError IllegalGenerationError IllegalSaslStateError
InconsistentClusterIdError InconsistentGroupProtocolError InconsistentTopicIdError InconsistentVoterSetError
IneligibleReplicaError InvalidCommitOffsetSizeError InvalidConfigurationError InvalidFetchRequestError
InvalidFetchSessionEpoch InvalidFetchSessionEpochError InvalidGroupIdError InvalidPartitionsError
InvalidPrincipalType InvalidPrincipalTypeError InvalidProducerEpoch InvalidProducerEpochError
InvalidProducerIdMapping InvalidProducerIdMappingError InvalidRecordError InvalidRecordStateError
InvalidRegistrationError InvalidReplicationAssignmentError InvalidReplicationFactorError InvalidRequestError
InvalidRequiredAcksError InvalidSessionTimeoutError InvalidShareSessionEpochError InvalidTimestampError
InvalidTopicError InvalidTransactionTimeout InvalidTransactionTimeoutError InvalidTxnState InvalidTxnStateError
InvalidUpdateVersionError InvalidVoterKeyError KafkaStorageError LeaderNotAvailableError ListenerNotFound
ListenerNotFoundError LogDirNotFound LogDirNotFoundError MemberIdRequired MemberIdRequiredError
MessageSizeTooLargeError MismatchedEndpointTypeError NetworkExceptionError NewLeaderElectedError NoError
NoReassignmentInProgressError NonEmptyGroup NonEmptyGroupError NotControllerError NotCoordinatorError
NotCoordinatorForGroupError NotEnoughReplicasAfterAppendError NotEnoughReplicasError NotLeaderForPartitionError
OffsetMetadataTooLargeError OffsetMovedToTieredStorageError OffsetNotAvailableError OffsetOutOfRangeError
OperationNotAttempted OperationNotAttemptedError OutOfOrderSequenceNumber OutOfOrderSequenceNumberError
PolicyViolationError PositionOutOfRangeError PreferredLeaderNotAvailableError
PrincipalDeserializationFailureError ProducerFencedError ReassignmentInProgress ReassignmentInProgressError
RebalanceInProgressError RecordListTooLargeError ReplicaNotAvailableError RequestTimedOutError
ResourceNotFoundError SaslAuthenticationFailed SaslAuthenticationFailedError SecurityDisabled
SecurityDisabledError ShareSessionNotFoundError SnapshotNotFoundError StaleBrokerEpochError
StaleControllerEpochError StaleLeaderEpochCodeError StaleMemberEpochError TelemetryTooLargeError
TopicAlreadyExistsError TopicAuthorizationFailedError TopicDeletionDisabledError TransactionAbortableError
TransactionCoordinatorFenced TransactionCoordinatorFencedError TransactionalIdAuthorizationFailed
TransactionalIdAuthorizationFailedError TransactionalIdNotFoundError UnacceptableCredentialError
UnknownControllerIdError UnknownError UnknownLeaderEpochError UnknownMemberIdError UnknownProducerId
UnknownProducerIdError UnknownSubscriptionIdError UnknownTopicIdError UnknownTopicOrPartitionError
UnreleasedInstanceIdError UnstableOffsetCommitError UnsupportedAssignorError UnsupportedCompressionTypeError
UnsupportedEndpointTypeError UnsupportedForMessageFormatError UnsupportedSaslMechanismError
UnsupportedVersionError VoterNotFoundError
"""


def _named(package: str) -> dict[str, Step]:
    steps: dict[str, Step] = dict.fromkeys(f"KafkaError {_OF_THE_CLIENT} {_OF_THE_BROKER}".split(), _by_code)
    return {f"{package}.errors.{name}": step for name, step in {**steps, **_BY_CLASS}.items()}


_NOT_KAFKA = Fault(FaultKind.PERMANENT, None, "local: value that cannot be written or read")
_STOPPED = Fault(FaultKind.NEUTRAL, None, "the consumer was stopped")

RULES: dict[str, Step] = {
    **_named("kafka"),
    **_named("aiokafka"),
    "aiokafka.errors.ConsumerStoppedError": _STOPPED,
    "aiokafka.errors.IllegalOperation": Fault(FaultKind.PERMANENT, None, "Kafka IllegalOperation"),
    "cimpl.KafkaException": _confluent,
    **{
        f"confluent_kafka.error.{name}": _confluent
        for name in ("_KafkaClientError", "ConsumeError", "ProduceError")
    },
    **{
        f"confluent_kafka.{name}": _NOT_KAFKA
        for name in (
            "serialization.SerializationError",
            "error.KeyDeserializationError",
            "error.KeySerializationError",
            "error.ValueDeserializationError",
            "error.ValueSerializationError",
        )
    },
}
