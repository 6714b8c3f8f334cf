"""What a real PostgreSQL makes its drivers raise: psycopg, psycopg on asyncio, asyncpg."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from perdure import FaultKind, classify
from tests.integration import postgres_parts as parts
from tests.integration import services
from tests.integration.postgres_parts import (
    role,
    until,
    with_async_psycopg,
    with_asyncpg,
    with_psycopg,
)
from tests.integration.relay import cut_at

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.services import Address

T, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


@pytest.fixture(params=[with_psycopg, with_async_psycopg, with_asyncpg], ids=lambda ask: ask.__name__[5:])
def ask(request: pytest.FixtureRequest) -> Any:
    return request.param


address, made_table, other, table = parts.address, parts.made_table, parts.other, parts.table


# -- statements ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "kind", "statements"),
    [
        ("23505", P, ["insert into {table} values (1)"]),
        ("23502", P, ["insert into {table} values (null)"]),
        ("23P01", P, [
            "create temp table x (r int4range, exclude using gist (r with &&))",
            "insert into x values ('[1,3]'), ('[2,4]')",
        ]),
        ("42601", P, ["nonsense"]),
        ("42P01", P, ["select * from perdure_no_such_table"]),
        ("22P02", P, ["select 'x'::int"]),
        ("22012", P, ["select 1 / 0"]),
        ("57014", P, ["set statement_timeout = 20", "select pg_sleep(5)"]),
        ("25006", S, ["set default_transaction_read_only = on", "insert into {table} values (3)"]),
        ("40001", T, ["do $$ begin raise serialization_failure; end $$"]),
        ("40003", A, ["do $$ begin raise statement_completion_unknown; end $$"]),
        ("53200", FaultKind.THROTTLED, ["do $$ begin raise out_of_memory; end $$"]),
        ("53100", P, ["do $$ begin raise disk_full; end $$"]),
        ("58030", P, ["do $$ begin raise io_error; end $$"]),
        ("57P02", A, ["do $$ begin raise crash_shutdown; end $$"]),
        ("57P04", P, ["do $$ begin raise database_dropped; end $$"]),
        ("08007", A, ["do $$ begin raise transaction_resolution_unknown; end $$"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_statement(
    ask: Any, address: Address, table: str, state: str, kind: FaultKind, statements: list[str]
) -> None:
    fault = classify(ask(address.url, *(statement.replace("{table}", table) for statement in statements)))
    assert fault.kind is kind
    assert fault.why.startswith(f"SQLSTATE {state}")


def test_a_lock_that_is_not_waited_for(ask: Any, address: Address, other: Any, table: str) -> None:
    other.execute("begin")
    other.execute(f"select * from {table} where id = 1 for update")
    nowait = ask(address.url, f"select * from {table} where id = 1 for update nowait")
    timed = ask(address.url, "set lock_timeout = 10", f"update {table} set n = 1 where id = 1")
    assert classify(nowait) == classify(timed)
    assert classify(nowait).kind is T
    assert classify(nowait).why == "SQLSTATE 55P03 lock not available"


def test_a_transaction_that_goes_on_after_an_error_has_to_be_rolled_back(address: Address) -> None:
    with psycopg.connect(address.url) as connection:
        for statement, state in (("nonsense", "42601"), ("select 1", "25P02")):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert classify(caught.value).kind is P
            assert classify(caught.value).why.startswith(f"SQLSTATE {state}")


OURS = f"perdure {os.getpid()}"  # the tests may run twice at the same time


def test_a_query_that_a_user_cancels_is_neutral(ask: Any, address: Address, other: Any) -> None:
    with while_running(other, "pg_cancel_backend"):
        error = ask(address.url, f"select pg_sleep(5), '{OURS}'")
    assert classify(error).kind is N
    assert classify(error).why == "SQLSTATE 57014 canceled by a user"


def test_a_session_that_is_terminated_in_a_query_is_ambiguous(ask: Any, address: Address, other: Any) -> None:
    with while_running(other, "pg_terminate_backend"):
        error = ask(address.url, f"select pg_sleep(5), '{OURS}'")
    assert classify(error).kind is A


@contextmanager
def while_running(other: Any, do: str) -> Iterator[None]:
    """Do something to the session whose query says that it is ours, as soon as it runs."""
    ours = f"state = 'active' and query like '%{OURS}%' and pid <> pg_backend_pid()"
    found = f"from pg_stat_activity where {ours}"

    def act() -> None:
        until(other, f"exists (select {found})")
        other.execute(f"select {do}(pid) {found}")

    actor = threading.Thread(target=act)
    actor.start()
    yield
    actor.join(20)
    assert not actor.is_alive()


@pytest.mark.parametrize(
    ("setting", "begin", "state"),
    [("idle_in_transaction_session_timeout", True, "25P03"), ("idle_session_timeout", False, "57P05")],
)
def test_a_session_that_the_server_closed_while_it_was_idle_is_stale(
    address: Address, other: Any, setting: str, begin: bool, state: str
) -> None:
    with psycopg.connect(address.url, autocommit=not begin) as connection:
        pid = connection.info.backend_pid
        connection.execute(f"set {setting} = 10")
        until(other, f"not exists (select from pg_stat_activity where pid = {pid})")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select 1")
        assert classify(caught.value).why.startswith(f"SQLSTATE {state}")
        assert classify(caught.value).kind is S
        with pytest.raises(psycopg.OperationalError) as again:
            connection.execute("select 1")
        assert classify(again.value).kind is S
        assert "take a new one" in classify(again.value).why


def test_an_idle_session_that_was_terminated_is_ambiguous(address: Address, other: Any) -> None:
    with psycopg.connect(address.url, autocommit=True) as connection:
        other.execute(f"select pg_terminate_backend({connection.info.backend_pid}, 2000)")
        with pytest.raises(psycopg.errors.AdminShutdown) as caught:
            connection.execute("select 1")
        assert classify(caught.value).kind is A
        connection.close()
        with pytest.raises(psycopg.OperationalError) as closed:
            connection.execute("select 1")
        assert classify(closed.value).kind is S


def test_a_statement_prepared_before_the_table_changed_runs_in_the_next_transaction(
    address: Address, other: Any, table: str
) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(address.url)
        try:
            await connection.fetch(f"select * from {table}")
            other.execute(f"alter table {table} add column more int")
            async with connection.transaction():
                await connection.fetch(f"select * from {table}")
        finally:
            await connection.close()

    with pytest.raises(asyncpg.exceptions.InvalidCachedStatementError) as caught:
        asyncio.run(run())
    assert classify(caught.value).kind is T


def test_asyncpg_used_in_the_wrong_way_is_permanent_but_a_closed_connection_stale(address: Address) -> None:
    async def run() -> list[BaseException]:
        connection = await asyncpg.connect(address.url)
        both = await asyncio.gather(
            *(connection.execute("select pg_sleep(0.01)") for _ in range(2)), return_exceptions=True
        )
        await connection.close()
        closed = await asyncio.gather(connection.execute("select 1"), return_exceptions=True)
        return [error for error in (*both, *closed) if isinstance(error, BaseException)]

    busy, closed = asyncio.run(run())
    assert classify(busy).kind is P
    assert classify(closed).kind is S


# -- connections -----------------------------------------------------------------------------------------


def test_a_refused_port_is_transient(ask: Any, address: Address) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        fault = classify(ask(f"postgresql://postgres@127.0.0.1:{bound.getsockname()[1]}/postgres"))
    assert fault.kind is T


def test_a_role_or_database_that_is_not_there_is_permanent(ask: Any, address: Address) -> None:
    start = f"postgresql://{{}}@{address.host}:{address.port}/"
    assert classify(ask(start.format("perdure_nobody") + "postgres")).kind is P
    assert classify(ask(start.format(address.user) + "perdure_nowhere")).kind is P


def test_too_many_connections_are_transient(ask: Any, address: Address, other: Any) -> None:
    with role(other, "connection limit 0") as name:
        fault = classify(ask(f"postgresql://{name}@{address.host}:{address.port}/{address.database}"))
    assert fault.kind is T


def test_a_name_that_cannot_be_resolved_is_permanent() -> None:
    """The name holds a space, so no name server is asked."""
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(host="no such host", connect_timeout=2)
    assert classify(caught.value).kind is P


@pytest.mark.parametrize("reset", [False, True], ids=["end", "reset"])
def test_a_connection_cut_in_a_query_is_ambiguous(ask: Any, address: Address, reset: bool) -> None:
    with cut_at(address.host, address.port, b"'cut here'", reset=reset) as port:
        error = ask(f"postgresql://{address.user}@127.0.0.1:{port}/{address.database}?sslmode=disable",
                    "select pg_sleep(0.2), 'cut here'")  # fmt: skip
    assert classify(error).kind is A, error


def test_a_server_that_closes_at_once_was_sent_nothing() -> None:
    with cut_at("127.0.0.1", services.postgres().port, b"user") as port:
        error = with_psycopg(f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable")
    assert classify(error).kind is T
