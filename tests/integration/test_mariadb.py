"""What a real MariaDB makes PyMySQL raise, and a transaction that is run again."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import FaultKind, classify
from tests.integration import services
from tests.integration.relay import cut_at

pymysql = pytest.importorskip("pymysql")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.services import Address

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P = FaultKind.STALE, FaultKind.PERMANENT

numbers = count()


@pytest.fixture(scope="module")
def address() -> Address:
    return services.mariadb()


def connect(address: Address, **options: Any) -> Any:
    where = {"host": address.host, "port": address.port, "user": address.user, "password": address.password}
    return pymysql.connect(**(where | {"database": address.database, "read_timeout": 20} | options))


@pytest.fixture
def other(address: Address) -> Iterator[Any]:
    with closing(connect(address, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def one(address: Address) -> Iterator[Any]:
    with closing(connect(address, autocommit=True)) as connection:
        yield connection


@contextmanager
def session(address: Address, **options: Any) -> Iterator[Any]:
    """A connection that may have been lost in the end: closing one twice is an error in PyMySQL."""
    connection = connect(address, **options)
    try:
        yield connection
    finally:
        if connection.open:
            connection.close()


def run(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def error_of(connection: Any, *statements: str) -> Exception:
    *before, last = statements
    for statement in before:
        run(connection, statement)
    with pytest.raises(pymysql.MySQLError) as caught:
        run(connection, last)
    return caught.value


def refused(address: Address, **options: Any) -> Exception:
    with pytest.raises(pymysql.MySQLError) as caught:
        connect(address, **options)
    return caught.value


@pytest.fixture(scope="module")
def made_table(address: Address) -> Iterator[str]:
    name = f"perdure_{os.getpid()}"
    with closing(connect(address)) as connection:
        run(connection, f"create table {name} (id int primary key, n int not null default 0) engine=innodb")
        try:
            yield name
        finally:
            run(connection, f"drop table {name}")


@pytest.fixture
def table(made_table: str, other: Any) -> Iterator[str]:
    """A table of our own with the rows 1 and 2."""
    if run(other, f"select id, n from {made_table}") != ((1, 0), (2, 0)):  # each write waits for the disk
        run(other, f"replace into {made_table} (id, n) values (1, 0), (2, 0)")
    yield made_table
    run(other, "rollback")


@contextmanager
def user(other: Any, limits: str, grant: str = "select, insert") -> Iterator[dict[str, str]]:
    name = f"perdure_{os.getpid()}_{next(numbers)}"
    run(other, f"create user '{name}'@'%' identified by 'right' {limits}")
    ((database,),) = run(other, "select database()")
    run(other, f"grant {grant} on {database}.* to '{name}'@'%'")
    try:
        yield {"user": name, "password": "right"}
    finally:
        run(other, f"drop user '{name}'@'%'")


def until(connection: Any, condition: str) -> None:
    """Ask the server again until the condition holds; it is the server that waits in between."""
    for _ in range(2_000):
        if run(connection, f"select {condition}")[0][0]:
            return
        run(connection, "select sleep(0.002)")
    pytest.fail(f"never came true: {condition}")


@pytest.mark.parametrize(
    ("number", "kind", "statements"),
    [
        (1062, P, ["insert into {table} values (1, 1)"]),
        (1064, P, ["nonsense"]),
        (1146, P, ["select * from perdure_no_such_table"]),
        (1048, P, ["insert into {table} values (null, 1)"]),
        (1969, P, ["set statement max_statement_time = 0.02 for select sleep(5)"]),
        (1792, S, ["start transaction read only", "insert into {table} values (3, 3)"]),
        (1020, T, ["signal sqlstate 'HY000' set mysql_errno = 1020"]),
        (1053, A, ["signal sqlstate '08S01' set mysql_errno = 1053"]),
        (1159, A, ["signal sqlstate '08S01' set mysql_errno = 1159"]),
        (3024, P, ["signal sqlstate 'HY000' set mysql_errno = 3024"]),
        (3572, T, ["signal sqlstate 'HY000' set mysql_errno = 3572"]),
        (4031, A, ["signal sqlstate 'HY000' set mysql_errno = 4031"]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else None,
)
def test_a_statement(one: Any, table: str, number: int, kind: FaultKind, statements: list[str]) -> None:
    error = error_of(one, *(statement.replace("{table}", table) for statement in statements))
    fault = classify(error)
    assert fault.kind is kind, error
    assert fault.why.startswith(f"MySQL error {number}")


def test_a_lock_that_is_waited_for_too_long_and_one_that_is_not_waited_for(
    one: Any, other: Any, table: str
) -> None:
    run(other, "start transaction")
    run(other, f"select * from {table} where id = 1 for update")
    nowait = error_of(one, f"select * from {table} where id = 1 for update nowait")
    assert classify(nowait).kind is T
    assert classify(nowait).why.startswith("MySQL error 1205: lock wait timeout")


def test_too_many_connections_of_a_user(address: Address, other: Any) -> None:
    with user(other, "with max_user_connections 1") as login, closing(connect(address, **login)):
        fault = classify(refused(address, **login))
    assert fault.kind is R
    assert fault.why.startswith("MySQL error 1226")


def test_too_many_queries_of_a_user(address: Address, other: Any) -> None:
    with (
        user(other, "with max_queries_per_hour 3") as login,
        closing(connect(address, **login)) as connection,
        pytest.raises(pymysql.MySQLError) as caught,
    ):
        for _ in range(10):
            run(connection, "select 1")
    assert classify(caught.value).kind is R


def test_a_wrong_password_a_missing_right_and_a_missing_database_are_permanent(
    address: Address, other: Any
) -> None:
    """Traps: 1044, 1045 and 1142 are OperationalErrors in PyMySQL."""
    with user(other, "") as login:
        wrong = refused(address, **(login | {"password": "wrong"}))
        elsewhere = refused(address, **login, database="mysql")
        with closing(connect(address, **login)) as connection:
            right = error_of(connection, "create table perdure_never (x int)")
    missing = refused(address, database="perdure_nowhere")
    for number, error in ((1045, wrong), (1044, elsewhere), (1142, right), (1049, missing)):
        assert isinstance(error, pymysql.err.OperationalError)
        assert classify(error).kind is P
        assert classify(error).why == f"MySQL error {number}"


def test_a_refused_port_is_transient(address: Address) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        fault = classify(refused(address, host="127.0.0.1", port=bound.getsockname()[1]))
    assert fault.kind is T
    assert fault.why == "MySQL error 2003: cannot connect"


@pytest.mark.parametrize("reset", [False, True], ids=["end", "reset"])
def test_a_connection_cut_in_a_query_is_ambiguous(address: Address, reset: bool) -> None:
    with (
        cut_at(address.host, address.port, b"'cut here'", reset=reset) as port,
        session(address, host="127.0.0.1", port=port, ssl_disabled=True) as connection,
    ):
        lost = error_of(connection, "select sleep(0.2), 'cut here'")
        closed = error_of(connection, "select 1")
    assert classify(lost).kind is A
    assert classify(lost).why.startswith("MySQL error 2013")
    assert classify(closed).kind is S
    assert "take a new one" in classify(closed).why


@pytest.mark.parametrize(("kill", "numbers"), [("kill query", {1317}), ("kill", {2013, 1927})])
def test_a_query_or_session_that_is_killed_is_ambiguous(
    address: Address, other: Any, table: str, kill: str, numbers: set[int]
) -> None:
    run(other, "start transaction")
    run(other, f"update {table} set n = 5")

    def act() -> None:
        until(other, f"exists (select * from information_schema.processlist where {waiting})")
        run(other, f"{kill} {identity}")

    with session(address) as connection:
        ((identity,),) = run(connection, "select connection_id()")
        waiting = f"id = {identity} and info like 'update %'"
        actor = threading.Thread(target=act)
        actor.start()
        error = error_of(connection, f"update {table} set n = 6")
        actor.join(20)
    assert classify(error).kind is A
    assert error.args[0] in numbers


def test_two_transfers_that_deadlock_both_succeed_when_retried(
    address: Address, other: Any, table: str
) -> None:
    both_hold_a_row = threading.Barrier(2)
    faults: list[str] = []

    @perdure.Retry(backoff=perdure.Constant(0))
    def transfer(first: int, second: int) -> None:
        with closing(connect(address)) as connection:
            run(connection, f"update {table} set n = n + 1 where id = {first}")
            if perdure.current().attempt == 1:
                both_hold_a_row.wait(10)
            run(connection, f"update {table} set n = n + 1 where id = {second}")
            connection.commit()

    stop = perdure.listen(
        lambda event: faults.append(event.fault.why) if event.name == "retry.scheduled" else None
    )
    threads = [threading.Thread(target=transfer, args=rows) for rows in ((1, 2), (2, 1))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        stop()
    assert faults == ["MySQL error 1213: deadlock: run the whole transaction again"]
    assert run(other, f"select n from {table}") == ((2,), (2,))
