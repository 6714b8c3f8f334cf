"""Refusals of a real RabbitMQ, to pika and to aio-pika. Queues are exclusive, so nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from perdure.faults import Fault, FaultKind, classify
from tests.integration import services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.integration.services import Address

pika = pytest.importorskip("pika")
aio_pika = pytest.importorskip("aio_pika")

T, A, S, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT

QUEUE = "perdure-test-queue"
MISSING = "perdure-test-missing"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Both clients log every refusal with its stack."""
    loggers = [logging.getLogger(name) for name in ("pika", "aiormq", "aio_pika")]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger in loggers:
        logger.setLevel(logging.NOTSET)


def connect(address: Address, **options: Any) -> Any:
    settings = {
        "host": address.host,
        "port": address.port,
        "connection_attempts": 1,
        "socket_timeout": 10,
        **options,
    }
    return pika.BlockingConnection(pika.ConnectionParameters(**settings))


@pytest.fixture
def connection() -> Iterator[Any]:
    connection = connect(services.rabbitmq())
    yield connection
    if connection.is_open:
        connection.close()


def failure(call: Callable[[], object]) -> Exception:
    """What `call` fails with, of whatever class."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - which class it is, is what the tests are about
        return error
    pytest.fail("it did not fail")


# -- pika ----------------------------------------------------------------------------------------------


def test_a_channel_that_the_broker_closes_says_why(connection: Any) -> None:
    refused = {
        404: lambda channel: channel.queue_declare(MISSING, passive=True),
        403: lambda channel: channel.exchange_declare("amq.perdure"),
        406: lambda channel: channel.exchange_declare("amq.direct", "fanout"),
    }
    for code, call in refused.items():
        fault = classify(failure(lambda call=call: call(connection.channel())))
        assert (fault.kind, fault.why[-5:]) == (P, f"({code})")


def test_a_channel_once_closed_has_to_be_opened_again(connection: Any) -> None:
    channel = connection.channel()
    failure(lambda: channel.queue_declare(MISSING, passive=True))
    assert classify(failure(lambda: channel.queue_declare("", exclusive=True))).kind is S
    connection.close()
    assert classify(failure(connection.channel)).kind is S


def test_a_queue_that_another_connection_holds(connection: Any) -> None:
    connection.channel().queue_declare(QUEUE, exclusive=True)
    other = connect(services.rabbitmq())
    try:
        locked = failure(lambda: other.channel().queue_declare(QUEUE, passive=True))
    finally:
        other.close()
    assert classify(locked) == Fault(T, None, "resource locked by another connection (405)")


def test_messages_that_no_queue_takes_or_a_full_one_refuses(connection: Any) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    returned = failure(lambda: channel.basic_publish("", MISSING, b"x", mandatory=True))
    assert classify(returned).kind is P
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare(QUEUE, exclusive=True, arguments=full)
    assert classify(failure(lambda: channel.basic_publish("", QUEUE, b"x"))).why.endswith("(nack)")


def test_a_login_or_virtual_host_that_is_refused() -> None:
    address = services.rabbitmq()
    wrong = pika.PlainCredentials("guest", "wrong")
    assert classify(failure(lambda: connect(address, credentials=wrong))).why.endswith(
        "does not accept the login"
    )
    missing = failure(lambda: connect(address, virtual_host=MISSING))
    assert classify(missing) == Fault(P, None, "no access to the virtual host")


def test_a_connection_that_is_cut_in_use(connection: Any) -> None:
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    assert classify(failure(connection.channel)) == Fault(A, None, "connection to the broker lost")


def test_pika_without_a_broker() -> None:
    with refused_port() as port:
        nobody = failure(lambda: connect(services.Address("amqp", "127.0.0.1", port)))
    assert classify(nobody) == Fault(T, None, "cannot connect to the broker")
    with hanging_up() as port:
        cut = failure(lambda: connect(services.Address("amqp", "127.0.0.1", port)))
    assert classify(cut).kind is T
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        slow = failure(lambda: connect(services.Address("amqp", "127.0.0.1", port), stack_timeout=0.1))
    assert classify(slow) == Fault(T, None, "connecting to the broker timed out")


# -- aio-pika ------------------------------------------------------------------------------------------


def afailure(call: Callable[[Any], Awaitable[object]]) -> Exception:
    """What `call`, given a connection, fails with."""
    address = services.rabbitmq()

    async def run() -> Exception:
        connection = await aio_pika.connect(address.url)
        async with connection:
            try:
                await call(connection)
            except Exception as error:  # noqa: BLE001 - which class it is, is what the tests are about
                return error
        pytest.fail("it did not fail")

    return asyncio.run(run())


async def declare_missing(connection: Any) -> None:
    await (await connection.channel()).declare_queue(MISSING, passive=True)


async def declare_reserved(connection: Any) -> None:
    await (await connection.channel()).declare_exchange("amq.perdure")


async def declare_differently(connection: Any) -> None:
    await (await connection.channel()).declare_exchange("amq.direct", "fanout")


async def declare_on_a_closed_channel(connection: Any) -> None:
    channel = await connection.channel()
    await channel.close()
    await channel.declare_queue("", exclusive=True)


async def publish_to_nobody(connection: Any) -> None:
    channel = await connection.channel(on_return_raises=True)
    await channel.default_exchange.publish(aio_pika.Message(b"x"), MISSING)


async def publish_to_a_full_queue(connection: Any) -> None:
    channel = await connection.channel()
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    queue = await channel.declare_queue("", exclusive=True, arguments=full)
    await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)


async def get_from_an_empty_queue(connection: Any) -> None:
    queue = await (await connection.channel()).declare_queue("", exclusive=True)
    await queue.get()


@pytest.mark.parametrize(
    ("call", "kind", "why"),
    [
        (declare_missing, P, "not found (404)"),
        (declare_reserved, P, "access refused (403)"),
        (declare_differently, P, "precondition failed (406)"),
        (declare_on_a_closed_channel, S, "channel or connection closed: open a new one"),
        (publish_to_nobody, P, "no route for the message (312)"),
        (publish_to_a_full_queue, T, "the broker did not take the message (nack)"),
        (get_from_an_empty_queue, P, "queue empty"),
    ],
)
def test_what_the_broker_refuses_to_aio_pika(
    call: Callable[[Any], Awaitable[object]], kind: FaultKind, why: str
) -> None:
    assert classify(afailure(call)) == Fault(kind, None, why)


def test_a_queue_that_is_locked_for_aio_pika(connection: Any) -> None:
    connection.channel().queue_declare(QUEUE, exclusive=True)

    async def declare(other: Any) -> None:
        await (await other.channel()).declare_queue(QUEUE, passive=True)

    assert classify(afailure(declare)) == Fault(T, None, "resource locked by another connection (405)")


def aconnect(url: str) -> Exception:
    return failure(lambda: asyncio.run(aio_pika.connect(url)))


def test_a_login_or_virtual_host_that_is_refused_to_aio_pika() -> None:
    address = services.rabbitmq()
    base = f"amqp://guest:{{}}@{address.host}:{address.port}/{{}}"
    assert classify(aconnect(base.format("wrong", ""))).why == "the broker does not accept the login"
    assert classify(aconnect(base.format("guest", MISSING))).kind is P


def test_aio_pika_without_a_broker() -> None:
    with refused_port() as port:
        assert classify(aconnect(f"amqp://guest:guest@127.0.0.1:{port}/")).kind is T
    with hanging_up() as port:
        assert classify(aconnect(f"amqp://guest:guest@127.0.0.1:{port}/")).kind is A


# -- tools ---------------------------------------------------------------------------------------------


@contextmanager
def refused_port() -> Iterator[int]:
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def hanging_up() -> Iterator[int]:
    """A port that closes a connection at the client's first bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
    thread.join(10)
    assert not thread.is_alive()
