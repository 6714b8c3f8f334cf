"""A PostgreSQL of our own: what cannot be done to one that others use. Passwords, crashes, shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perdure import FaultKind, classify
from tests.integration import services

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.services import Address


@pytest.fixture
def server() -> Iterator[Address]:
    try:
        address = services.private_postgres()
    except LookupError as error:
        pytest.skip(str(error))
    yield address
    services.end(address)


def refused(address: Address, **options: Any) -> list[Exception]:
    """The errors of both drivers when they connect."""
    with pytest.raises(psycopg.Error) as one:
        psycopg.connect(**{"host": address.host, "port": address.port, "user": "postgres", **options})

    async def run() -> None:
        await asyncpg.connect(**{"host": address.host, "port": address.port, "user": "postgres", **options})

    with pytest.raises(asyncpg.PostgresError) as two:
        asyncio.run(run())
    return [one.value, two.value]


def test_passwords_a_crash_and_a_shutdown(server: Address) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin, psycopg.connect(server.url) as victim:
        ask_for_passwords(admin)
        for error in refused(server, user="app", password="wrong"):  # noqa: S106 - it is wrong
            assert classify(error).kind is FaultKind.PERMANENT, error
        for error in refused(server, user="nobody"):
            assert classify(error).kind is FaultKind.PERMANENT, error
        for error in crash(admin, victim):
            assert classify(error).kind is FaultKind.AMBIGUOUS, error
    with recovered(server) as stays:
        os.kill(server.pid or 0, signal.SIGTERM)  # a smart shutdown: waits for the sessions there are
        one, two = turned_away(server)
        assert stays.execute("select 1").fetchone() == (1,)
    assert classify(one).kind is FaultKind.TRANSIENT
    assert classify(two).kind is FaultKind.TRANSIENT
    assert classify(two).why.startswith("SQLSTATE 57P03")


def crash(admin: Any, victim: Any) -> list[Exception]:
    """Kill one process: the server ends all sessions, as memory that they share may be damaged."""
    os.kill(victim.info.backend_pid, signal.SIGKILL)
    errors: list[Exception] = []
    for session, statement in ((admin, "select pg_sleep(5)"), (victim, "select 1")):
        with pytest.raises(psycopg.OperationalError) as caught:
            session.execute(statement)
        errors.append(caught.value)
    return errors


def ask_for_passwords(admin: Any) -> None:
    admin.execute("create role app login password 'right'")
    (path,) = admin.execute("show hba_file").fetchone()
    file = Path(path)
    file.write_text(
        f"host all app 127.0.0.1/32 scram-sha-256\nhost all nobody 127.0.0.1/32 reject\n{file.read_text()}",
        encoding="utf-8",
    )
    admin.execute("select pg_reload_conf()")
    seen = "select exists (select from pg_hba_file_rules where auth_method = 'reject')"
    assert admin.execute(seen).fetchone() == (True,)


def recovered(server: Address) -> Any:
    """Connect until the server has recovered; until then each refusal has to be one that passes."""
    for _ in range(5_000):
        try:
            return psycopg.connect(server.url)
        except psycopg.OperationalError as error:
            assert classify(error).kind is FaultKind.TRANSIENT, error  # noqa: PT017 - each of them
    pytest.fail("the server never recovered")


def turned_away(server: Address) -> list[Exception]:
    """Connect until the signal has been seen."""
    for _ in range(5_000):
        try:
            psycopg.connect(server.url).close()
        except psycopg.OperationalError:
            return refused(server)
    pytest.fail("the server never began to shut down")
