"""Kafka by error code, with the classes of the three client libraries; none of these tests needs a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.kafka import RULES
from perdure.faults.signal import Signal, signal_of

if TYPE_CHECKING:
    from types import ModuleType

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P, N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL

# What the protocol calls retriable, but for 7, 13 and 20: there the record may be stored already.
KINDS = {
    T: (2, 3, 5, 6, 8, 9, 14, 15, 16, 19, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 100, 103, 106),
    R: (89,),
    A: (-1, 7, 13, 20),
    S: (22, 25, 27, 66, 79, 110, 113, 120),
    P: (1, 4, 10, 12, 17, 18, 21, 23, 24, 26, *range(28, 41), *range(42, 51), *range(52, 56), *range(57, 61)),
}
KIND = {code: kind for kind, codes in KINDS.items() for code in codes}


@pytest.fixture(params=["kafka", "aiokafka"])
def errors(request: pytest.FixtureRequest) -> ModuleType:
    pytest.importorskip(request.param)
    module: ModuleType = pytest.importorskip(f"{request.param}.errors")
    return module


def classes(errors: ModuleType) -> list[type[Exception]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [cls for cls in found if issubclass(cls, Exception) and cls.__module__ == errors.__name__]


def test_every_class_is_known_and_goes_by_its_code(errors: ModuleType) -> None:
    """Else its code would be taken for an errno of the system: 5 is EIO, 11 EAGAIN."""
    seen = set()
    for cls in classes(errors):
        assert f"{cls.__module__}.{cls.__qualname__}" in RULES
        code: Any = getattr(cls, "errno", None)
        if code in KIND:
            seen.add(code)
            fault = classify(cls())
            assert fault.kind is KIND[code], cls
            assert fault.why.startswith(f"Kafka error {code} ({cls.__name__})")
    assert len(seen) > 60


def test_what_the_client_calls_retriable_is_retried(errors: ModuleType) -> None:
    for cls in classes(errors):
        if getattr(cls, "retriable", False) and cls.__name__ != "InvalidMetadataError":
            assert classify(cls()).kind in (T, R, A), cls


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("KafkaConnectionError", "Unable to bootstrap from [('127.0.0.1', 9)]", T),
        ("KafkaConnectionError", "DNS Resolution failure", T),
        ("KafkaConnectionError", "Connection at 127.0.0.1:9092 closed", A),
        ("KafkaConnectionError", "", A),
        ("KafkaTimeoutError", "Failed to update metadata after 60.0 secs.", T),
        ("KafkaTimeoutError", "Batch for TopicPartition(topic='a', partition=0) expired", A),
        ("KafkaTimeoutError", "", A),
        ("NodeNotReadyError", "", T),
        ("StaleMetadata", "", T),
        ("MetadataEmptyBrokerList", "", T),
        ("TooManyInFlightRequests", "", T),
        ("CorrelationIdError", "", A),
        ("KafkaProtocolError", "", A),
        ("Cancelled", "", A),
        ("CommitFailedError", "", S),
        ("QuotaViolationError", "", R),
        ("IllegalStateError", "", P),
        ("KafkaConfigurationError", "", P),
        ("UnsupportedCodecError", "", P),
        ("UnrecognizedBrokerVersion", "", P),
    ],
)
def test_failures_of_the_client(errors: ModuleType, name: str, text: str, kind: FaultKind) -> None:
    exc = getattr(errors, name)(*filter(None, [text]))
    assert classify(exc).kind is kind


def test_aiokafka_alone() -> None:
    errors = pytest.importorskip("aiokafka.errors")
    assert classify(errors.NoBrokersAvailable()).kind is T
    assert classify(errors.KafkaUnavailableError()).kind is T
    assert classify(errors.ConsumerStoppedError()).kind is N
    assert classify(errors.ProducerFenced()).kind is P
    assert classify(errors.AuthenticationFailedError("x")).kind is P


def test_a_timeout_counts_as_congestion(errors: ModuleType) -> None:
    exc = errors.RequestTimedOutError()
    assert signal_of(exc, classify(exc), wanted=False) is Signal.OVERLOAD


def test_an_aiokafka_client_without_a_broker() -> None:
    import asyncio

    aiokafka = pytest.importorskip("aiokafka")

    async def start() -> Exception:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", request_timeout_ms=500)
        try:
            with pytest.raises(aiokafka.errors.KafkaError) as caught:
                await producer.start()
        finally:
            await producer.stop()
        return caught.value

    assert classify(asyncio.run(start())) == Fault(T, None, "cannot connect to a Kafka broker")


# -- librdkafka ----------------------------------------------------------------------------------------


def confluent(code: int, **flags: bool) -> Exception:
    library = pytest.importorskip("confluent_kafka")
    error: Exception = library.KafkaException(library.KafkaError(code, "text", **flags))
    return error


@pytest.mark.parametrize("code", [code for code in KIND if code != -1])
def test_confluent_goes_by_the_same_codes(code: int) -> None:
    assert classify(confluent(code)).kind is KIND[code]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_ALL_BROKERS_DOWN", T),
        ("_RESOLVE", T),
        ("_TIMED_OUT_QUEUE", T),
        ("_QUEUE_FULL", T),
        ("_RETRY", T),
        ("_WAIT_COORD", T),
        ("_ISR_INSUFF", T),
        ("_INTR", T),
        ("_TRANSPORT", A),
        ("_TIMED_OUT", A),
        ("_MSG_TIMED_OUT", A),
        ("_PURGE_INFLIGHT", A),
        ("_MAX_POLL_EXCEEDED", S),
        ("_ASSIGNMENT_LOST", S),
        ("_PARTITION_EOF", N),
        ("_PURGE_QUEUE", N),
        ("_IN_PROGRESS", N),
        ("_AUTHENTICATION", P),
        ("_SSL", P),
        ("_FENCED", P),
        ("_INVALID_ARG", P),
        ("_UNKNOWN_TOPIC", P),
        ("_STATE", P),
    ],
)
def test_codes_of_librdkafka_itself(name: str, kind: FaultKind) -> None:
    library = pytest.importorskip("confluent_kafka")
    fault = classify(confluent(getattr(library.KafkaError, name)))
    assert fault.kind is kind
    assert ("timed out" in fault.why) is ("TIMED_OUT" in name)


def test_fatal_transactional_and_unknown_errors() -> None:
    assert classify(confluent(5, fatal=True)).kind is P
    assert classify(confluent(5, txn_requires_abort=True)).kind is S
    assert classify(confluent(9999, retriable=True)).kind is T
    assert classify(confluent(9999)).kind is P


def test_confluent_exceptions_of_other_kinds() -> None:
    library = pytest.importorskip("confluent_kafka")
    from confluent_kafka import error, serialization

    assert classify(library.KafkaException("text")).kind is P
    assert classify(library.KafkaException()).kind is P
    assert classify(error.ConsumeError(library.KafkaError(5))).kind is T
    assert classify(error.ProduceError(library.KafkaError(7))).kind is A
    assert classify(serialization.SerializationError("x")).kind is P
    assert classify(error.ValueDeserializationError(None, None)).kind is P


@given(st.integers(-10_000, 10_000), st.booleans(), st.booleans())
def test_any_code_has_an_answer(code: int, fatal: bool, retriable: bool) -> None:
    fault = classify(confluent(code, fatal=fatal, retriable=retriable))
    assert fault.why.removeprefix("local: ").startswith("Kafka error")
    assert not (fatal and fault.kind is not P)


def test_a_confluent_client_without_a_broker() -> None:
    """A refused port comes back as a timeout of the call: librdkafka goes on trying by itself."""
    admin: Any = pytest.importorskip("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(pytest.importorskip("confluent_kafka").KafkaException) as caught:
        client.list_topics(timeout=0.2)
    assert classify(caught.value).kind in (T, A)
