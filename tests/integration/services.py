"""Real servers for tests: the one that is there, else one of our own, else the test is skipped and says so.

`postgres()`, `mariadb()`, `redis()`, `rabbitmq()` and `nats()` give the `Address` of a server that answers:

1. of the variable `PERDURE_TEST_POSTGRES` (`..._MARIADB`, ...), a URL. One that does not answer is a failure;
2. of the standard port on this machine, if a client without a password may use it;
3. of a server started here where the program is installed, in a folder and on a port of its own.

`private_postgres()` and `private_redis()` always start one: for tests that kill it or change its settings. What was
started is ended when the test session ends.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from tests.integration import servers
from tests.integration.servers import (
    STANDARD,
    Address,
    end,
    private_mariadb,
    private_nats,
    private_postgres,
    private_redis,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Address",
    "end",
    "mariadb",
    "nats",
    "postgres",
    "private_postgres",
    "private_redis",
    "rabbitmq",
    "redis",
    "stop",
]

PATIENCE = 0.5
"""Seconds for a probe of a port: this machine answers or refuses in less than one of a thousand."""

NEEDED_IN_CI = {"postgres", "redis"}

missing: dict[str, str] = {}
"""Service -> why it is not there, for the one line at the end of the run."""


# -- the services --------------------------------------------------------------------------------------


def postgres() -> Address:
    """A PostgreSQL that anybody on this machine may use as its superuser."""
    return _service("postgres", STANDARD["postgres"], _answers_postgres, private_postgres)


def mariadb() -> Address:
    """A MariaDB or MySQL whose root has no password."""
    return _service("mariadb", STANDARD["mariadb"], _answers_mariadb, private_mariadb)


def redis() -> Address:
    """A Redis or Valkey without a password."""
    return _service("redis", STANDARD["redis"], _answers_redis, private_redis)


def rabbitmq() -> Address:
    """A RabbitMQ with its guest account. None is started: it takes long, and leaves a daemon behind."""
    return _service("rabbitmq", STANDARD["rabbitmq"], _answers_rabbitmq, None)


def nats() -> Address:
    """A NATS server with JetStream."""
    return _service("nats", STANDARD["nats"], _answers_nats, private_nats)


def _service(
    name: str, standard: Address, answers: Callable[[Address], bool], start: Callable[[], Address] | None
) -> Address:
    if name in missing:
        _give_up(name)
    try:
        return _found(name, standard, answers, start)
    except LookupError as error:
        missing[name] = str(error)
        _give_up(name)


@cache
def _found(
    name: str, standard: Address, answers: Callable[[Address], bool], start: Callable[[], Address] | None
) -> Address:
    variable = f"PERDURE_TEST_{name.upper()}"
    given = os.environ.get(variable)
    if given:
        address = _parsed(given, standard)
        if not _reachable(address):
            pytest.fail(f"{variable}: nothing answers at {address.host}:{address.port}")
        return address
    if _quietly(answers, standard):
        return standard
    if start is None:
        raise LookupError(f"none on port {standard.port}")
    return start()


def _give_up(name: str) -> NoReturn:
    if os.environ.get("CI") and name in NEEDED_IN_CI:
        pytest.fail(f"no {name}: {missing[name]}; where CI is set it has to be there")
    pytest.skip(f"no {name}: {missing[name]}")


def _parsed(url: str, standard: Address) -> Address:
    parts = urlsplit(url if "//" in url else f"//{url}")
    return replace(
        standard,
        host=parts.hostname or standard.host,
        port=parts.port or standard.port,
        user=unquote(parts.username or standard.user),
        password=unquote(parts.password or standard.password),
        database=parts.path.strip("/") or standard.database,
    )


# -- who answers ---------------------------------------------------------------------------------------


def _quietly(answers: Callable[[Address], bool], address: Address) -> bool:
    with suppress(OSError, struct.error, IndexError):
        return answers(address)
    return False


def _open(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=PATIENCE)


def _reachable(address: Address) -> bool:
    def connects(address: Address) -> bool:
        with _open(address):
            return True

    return _quietly(connects, address)


def _answers_redis(address: Address) -> bool:
    with _open(address) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")


def _answers_nats(address: Address) -> bool:
    with _open(address) as connection:
        return connection.recv(64).startswith(b"INFO ")


def _answers_rabbitmq(address: Address) -> bool:
    with _open(address) as connection:
        connection.sendall(b"AMQP\x00\x00\x09\x01")
        return connection.recv(1) == b"\x01"  # a method frame: connection.start


def _answers_postgres(address: Address) -> bool:
    """Log in by hand: the answer to a start-up message says whether a password would be wanted."""
    fields = f"user\0{address.user}\0database\0{address.database}\0\0".encode()
    with _open(address) as connection:
        connection.sendall(struct.pack("!ii", len(fields) + 8, 196_608) + fields)
        answer = connection.recv(9)
        return answer[:1] == b"R" and struct.unpack("!ii", answer[1:])[1] == 0


def _answers_mariadb(address: Address) -> bool:
    """Log in by hand, without a password."""
    with_database, protocol_41, secure, plugin = 0x8, 0x200, 0x8000, 0x80000
    login = struct.pack("<IIB23x", with_database | protocol_41 | secure | plugin, 1 << 24, 45)
    login += f"{address.user}\0\0{address.database}\0mysql_native_password\0".encode()
    with _open(address) as connection:
        connection.recv(4096)
        connection.sendall(struct.pack("<I", len(login) | 1 << 24) + login)
        return connection.recv(5)[4] == 0


def stop() -> None:
    """End every server that was started here."""
    servers.stop()
    _found.cache_clear()
