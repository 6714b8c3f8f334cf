"""SQLAlchemy over real drivers: SQLite, psycopg and asyncpg on PostgreSQL, PyMySQL on MariaDB."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import FaultKind, classify
from tests.integration import services
from tests.integration.relay import cut_at

sa = pytest.importorskip("sqlalchemy")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T, A, S, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT

AGAIN = perdure.Retry(backoff=perdure.Constant(0))
numbers = count()


@contextmanager
def engine_of(url: str, **options: Any) -> Iterator[Any]:
    engine = sa.create_engine(url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def postgres() -> Iterator[Any]:
    pytest.importorskip("psycopg")
    with engine_of(services.postgres().url.replace("postgresql:", "postgresql+psycopg:")) as engine:
        yield engine


@pytest.fixture
def mariadb() -> Iterator[Any]:
    pytest.importorskip("pymysql")
    with engine_of(services.mariadb().url.replace("mysql:", "mysql+pymysql:")) as engine:
        yield engine


@contextmanager
def table_in(engine: Any) -> Iterator[str]:
    name = f"perdure_{os.getpid()}_sa_{next(numbers)}"
    with engine.begin() as connection:
        connection.execute(sa.text(f"create table {name} (id int primary key, n int not null)"))
        connection.execute(sa.text(f"insert into {name} values (1, 0), (2, 0)"))
    try:
        yield name
    finally:
        with engine.begin() as connection:
            connection.execute(sa.text(f"drop table {name}"))


def error_of(engine: Any, statement: str) -> Any:
    with pytest.raises(sa.exc.SQLAlchemyError) as caught, engine.begin() as connection:
        connection.execute(sa.text(statement))
    return caught.value


def test_errors_over_psycopg(postgres: Any) -> None:
    for statement, kind, why in (
        ("do $$ begin raise deadlock_detected; end $$", T, "SQLSTATE 40P01 deadlock"),
        ("select 1 / 0", P, "SQLSTATE 22012"),
        ("nonsense", P, "SQLSTATE 42601"),
        ("select pg_terminate_backend(pg_backend_pid())", A, "SQLSTATE 57P01"),
    ):
        error = error_of(postgres, statement)
        assert isinstance(error, sa.exc.DBAPIError)
        assert classify(error).kind is kind
        assert classify(error).why.startswith(why)


def test_errors_over_pymysql(mariadb: Any) -> None:
    for statement, kind, why in (
        ("signal sqlstate '40001' set mysql_errno = 1213", T, "MySQL error 1213: deadlock"),
        ("nonsense", P, "MySQL error 1064"),
    ):
        assert classify(error_of(mariadb, statement)).kind is kind
        assert classify(error_of(mariadb, statement)).why.startswith(why)


@pytest.mark.parametrize(
    ("statement", "kind", "why"),
    [
        ("do $$ begin raise serialization_failure; end $$", T, "SQLSTATE 40001"),
        ("select 1 / 0", P, "SQLSTATE 22012"),
        ("select pg_terminate_backend(pg_backend_pid())", A, "SQLSTATE 08003"),
    ],
)
def test_errors_over_asyncpg(statement: str, kind: FaultKind, why: str) -> None:
    pytest.importorskip("asyncpg")
    pytest.importorskip("greenlet")
    aio = pytest.importorskip("sqlalchemy.ext.asyncio")
    url = services.postgres().url.replace("postgresql:", "postgresql+asyncpg:")

    async def run() -> None:
        engine = aio.create_async_engine(url)
        try:
            async with engine.begin() as connection:
                await connection.execute(sa.text(statement))
        finally:
            await engine.dispose()

    with pytest.raises(sa.exc.DBAPIError) as caught:
        asyncio.run(run())
    assert classify(caught.value).kind is kind
    assert classify(caught.value).why.startswith(why)


def test_a_session_that_the_server_closed_is_replaced_by_the_pool(postgres: Any) -> None:
    """What asks for another connection is transient: SQLAlchemy has dropped this one from its pool."""
    with pytest.raises(sa.exc.DBAPIError) as caught, postgres.connect() as connection:
        pid = connection.scalar(sa.text("select pg_backend_pid()"))
        connection.execute(sa.text("set idle_in_transaction_session_timeout = 10"))
        gone_from(postgres, pid)
        connection.execute(sa.text("select 1"))
    assert caught.value.connection_invalidated
    assert classify(caught.value).kind is T
    assert classify(caught.value).why.startswith("SQLSTATE 25P03")


def gone_from(engine: Any, pid: int) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
        for _ in range(2_000):
            if not other.scalar(sa.text(f"select count(*) from pg_stat_activity where pid = {pid}")):
                return
            other.execute(sa.text("select pg_sleep(0.002)"))
    pytest.fail("the session was never closed")


def test_a_transaction_over_a_connection_cut_in_a_query_is_run_again_on_a_new_one(postgres: Any) -> None:
    address = services.postgres()
    seen: list[FaultKind] = []

    @AGAIN
    def query(engine: Any, words: str = "cut here") -> int:
        if perdure.current().attempt > 1:
            words = "other words"
        with engine.begin() as connection:
            return int(connection.scalar(sa.text(f"select 7 from pg_sleep(0.1) where '{words}' <> ''")))

    with (
        cut_at(address.host, address.port, b"'cut here'") as port,
        engine_of(f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres?sslmode=disable") as engine,
    ):
        stop = perdure.listen(lambda event: event.name == "retry.scheduled" and seen.append(event.fault.kind))
        try:
            assert query(engine) == 7
        finally:
            stop()
    assert seen == [A]


def test_a_connection_that_fails_in_the_middle_of_a_transaction_has_to_be_rolled_back(postgres: Any) -> None:
    orm = pytest.importorskip("sqlalchemy.orm")
    with orm.Session(postgres) as session:
        session.execute(sa.text("select 1"))
        session.connection().invalidate()
        with pytest.raises(sa.exc.PendingRollbackError) as caught:
            session.execute(sa.text("select 1"))
    assert classify(caught.value).kind is P
    assert "roll back first" in classify(caught.value).why


def test_a_pool_without_a_free_connection_is_transient(postgres: Any) -> None:
    with (
        engine_of(str(postgres.url), pool_size=1, max_overflow=0, pool_timeout=0.01) as engine,
        engine.connect(),
    ):
        error = error_of(engine, "select 1")
    assert isinstance(error, sa.exc.TimeoutError)
    assert classify(error).kind is T


def test_a_deadlock_is_retried_as_a_whole_transaction(postgres: Any) -> None:
    both_hold_a_row = threading.Barrier(2)
    runs: list[int] = []

    @AGAIN
    def transfer(table: str, first: int, second: int) -> None:
        runs.append(first)
        with postgres.begin() as connection:
            connection.execute(sa.text("set local deadlock_timeout = 10"))
            connection.execute(sa.text(f"update {table} set n = n + 1 where id = {first}"))
            if perdure.current().attempt == 1:
                both_hold_a_row.wait(10)
            connection.execute(sa.text(f"update {table} set n = n + 1 where id = {second}"))

    with table_in(postgres) as table:
        threads = [threading.Thread(target=transfer, args=(table, *rows)) for rows in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        with postgres.connect() as connection:
            assert list(connection.scalars(sa.text(f"select n from {table}"))) == [2, 2]
    assert len(runs) == 3


def test_a_locked_sqlite_file_is_retried(tmp_path: Path) -> None:
    with engine_of(f"sqlite:///{tmp_path / 'base'}", connect_args={"timeout": 0}) as engine:
        with engine.begin() as connection:
            connection.execute(sa.text("create table t (n int)"))
        lock = engine.raw_connection()
        lock.execute("begin immediate")

        @AGAIN
        def write() -> int:
            attempt = perdure.current().attempt
            if attempt == 2:
                lock.rollback()
            with engine.begin() as connection:
                connection.execute(sa.text("insert into t values (1)"))
            return attempt

        try:
            assert write() == 2
        finally:
            lock.close()
