"""Whole transactions that are run again on a real PostgreSQL."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from tests.integration import postgres_parts as parts
from tests.integration.relay import cut_at

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.services import Address


address, made_table, other, table = parts.address, parts.made_table, parts.other, parts.table


def test_two_transfers_that_deadlock_both_succeed_when_retried(address: Address, table: str) -> None:
    both_hold_a_row = threading.Barrier(2)
    runs: list[int] = []

    @perdure.Retry(backoff=perdure.Constant(0))
    def transfer(first: int, second: int) -> None:
        runs.append(first)
        with psycopg.connect(address.url) as connection:
            connection.execute("set local deadlock_timeout = 10")
            connection.execute(f"update {table} set n = n + 1 where id = %s", (first,))
            if perdure.current().attempt == 1:
                both_hold_a_row.wait(10)
            connection.execute(f"update {table} set n = n + 1 where id = %s", (second,))

    threads = [threading.Thread(target=transfer, args=rows) for rows in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(runs) in ([1, 1, 2], [1, 2, 2])  # one of them was the victim, once
    with psycopg.connect(address.url) as connection:
        assert connection.execute(f"select n from {table}").fetchall() == [(2,), (2,)]


def add_one(other: Any, table: str) -> None:
    other.execute(f"update {table} set n = n + 1 where id = 1")


def test_a_serialization_failure_is_retried(address: Address, other: Any, table: str) -> None:
    seen: list[str] = []

    @perdure.Retry(backoff=perdure.Constant(0))
    def double() -> None:
        with psycopg.connect(address.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            (n,) = connection.execute(f"select n from {table} where id = 1").fetchone()
            if perdure.current().attempt == 1:
                add_one(other, table)
            connection.execute(f"update {table} set n = %s where id = 1", (n * 2 + 10,))

    stop = perdure.listen(lambda event: event.fault and seen.append(event.fault.why))
    try:
        double()
    finally:
        stop()
    assert seen[0] == "SQLSTATE 40001 serialization failure: run the whole transaction again"
    assert other.execute(f"select n from {table} where id = 1").fetchone() == (12,)


@pytest.mark.parametrize("library", ["psycopg", "asyncpg"])
def test_a_serialization_failure_on_asyncio_is_retried(
    address: Address, other: Any, table: str, library: str
) -> None:
    numbers: list[int] = []

    async def body(read: Callable[..., Any], write: Callable[..., Any]) -> None:
        numbers.append(perdure.current().attempt)
        n = await read(f"select n from {table} where id = 1")
        if numbers == [1]:
            add_one(other, table)
        await write(f"update {table} set n = {n * 2 + 10} where id = 1")

    @perdure.Retry(backoff=perdure.Constant(0))
    async def with_asyncpg() -> None:
        connection = await asyncpg.connect(address.url)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                await body(connection.fetchval, connection.execute)
        finally:
            await connection.close()

    @perdure.Retry(backoff=perdure.Constant(0))
    async def with_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(address.url) as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)

            async def read(statement: str) -> int:
                return int((await (await connection.execute(statement)).fetchone())[0])

            await body(read, connection.execute)

    asyncio.run(with_asyncpg() if library == "asyncpg" else with_psycopg())
    assert numbers == [1, 2]
    assert other.execute(f"select n from {table} where id = 1").fetchone() == (12,)


def test_a_unique_violation_is_not_retried(address: Address, table: str) -> None:
    def insert() -> None:
        with psycopg.connect(address.url) as connection:
            connection.execute(f"insert into {table} values (1)")

    outcome = perdure.Retry(backoff=perdure.Constant(0)).outcome(insert)
    assert outcome.attempts == 1
    assert outcome.stop is perdure.StopReason.PERMANENT


def test_a_lost_connection_is_not_retried_where_the_work_may_not_be_done_twice(address: Address) -> None:
    for safety, attempts in (("unsafe", 1), ("safe", 2)):
        with cut_at(address.host, address.port, b"'cut here'") as port:

            def query(port: int = port) -> None:
                with psycopg.connect(
                    f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
                ) as connection:
                    connection.execute("select pg_sleep(0.1), 'cut here'")

            policy = perdure.Retry(attempts=2, backoff=perdure.Constant(0), safety=perdure.Safety(safety))
            outcome = policy.outcome(query)
        assert outcome.attempts == attempts
