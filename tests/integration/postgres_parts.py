"""Three drivers of PostgreSQL asked in one way, and a server that is asked until something holds."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration import services

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.services import Address

numbers = count()

ERRORS = (psycopg.Error, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


def with_psycopg(url: str, *statements: str) -> Exception:
    def run() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            for statement in statements:
                connection.execute(statement)

    with pytest.raises(ERRORS) as caught:
        run()
    return caught.value


def with_async_psycopg(url: str, *statements: str) -> Exception:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement)

    with pytest.raises(ERRORS) as caught:
        asyncio.run(run())
    return caught.value


def with_asyncpg(url: str, *statements: str) -> Exception:
    async def run() -> None:
        connection = await asyncpg.connect(url, ssl=False)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            connection.terminate()

    with pytest.raises(ERRORS) as caught:
        asyncio.run(run())
    return caught.value


@contextmanager
def own_table(url: str) -> Iterator[str]:
    name = f"perdure_{os.getpid()}_{next(numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create table {name} (id int primary key, n int not null default 0)")
        try:
            yield name
        finally:
            connection.execute(f"drop table {name}")


@contextmanager
def session_on(url: str) -> Iterator[Any]:
    """A session that holds locks and ends others."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def two_rows(table: str, session: Any) -> Iterator[str]:
    """The table with the rows 1 and 2."""
    session.execute(f"delete from {table}; insert into {table} values (1), (2)")
    yield table
    session.execute("rollback")


# -- fixtures, which a module of tests takes by their names -------------------------------------------------


@pytest.fixture(scope="module")
def address() -> Address:
    return services.postgres()


@pytest.fixture(scope="module")
def made_table(address: Address) -> Iterator[str]:
    with own_table(address.url) as name:
        yield name


@pytest.fixture
def other(address: Address) -> Iterator[Any]:
    with session_on(address.url) as session:
        yield session


@pytest.fixture
def table(made_table: str, other: Any) -> Iterator[str]:
    with two_rows(made_table, other) as name:
        yield name


# -- other things ------------------------------------------------------------------------------------------


@contextmanager
def role(connection: Any, options: str) -> Iterator[str]:
    """A role of our own."""
    name = f"perdure_{os.getpid()}_{next(numbers)}"
    connection.execute(f"create role {name} login {options}")
    try:
        yield name
    finally:
        connection.execute(f"drop role {name}")


def until(connection: Any, condition: str) -> None:
    """Ask the server again until the condition holds; it is the server that waits in between."""
    for _ in range(2_000):
        if connection.execute(f"select {condition}").fetchone()[0]:
            return
        connection.execute("select pg_sleep(0.002)")
    pytest.fail(f"never came true: {condition}")
