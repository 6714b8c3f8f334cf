"""PostgreSQL drivers by what their exceptions carry; those of a real server are in tests/integration."""

from __future__ import annotations

import pytest

from perdure.faults import FaultKind, classify
from perdure.faults.signal import Signal, signal_of
from tests.faults.sql_classes import driver_class, with_fields
from tests.faults.test_sqlstate import ROWS

T, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

LIBPQ = ("psycopg.OperationalError", "psycopg2.OperationalError")
SERVER = 'connection to server at "db" (10.0.0.1), port 5432 failed: '


@pytest.mark.parametrize(
    ("kind", "state"), [(kind, state) for kind, row in ROWS.items() for state in row.split()]
)
def test_both_drivers_classes_of_a_state_are_judged_by_it(kind: FaultKind, state: str) -> None:
    for made in (psycopg.errors, asyncpg):
        cls = find_class(made, state)
        if cls is not None:
            assert classify(cls("text")).kind is kind, cls


def find_class(made: object, state: str) -> type[Exception] | None:
    if made is asyncpg:
        found = [cls for cls in vars(asyncpg).values() if getattr(cls, "sqlstate", None) == state]
        return found[0] if found else None
    try:
        cls: type[Exception] = psycopg.errors.lookup(state)
    except KeyError:
        return None
    return cls


@pytest.mark.parametrize("path", LIBPQ)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Connection refused\n\tIs the server running on that host?", T),
        ("timeout expired", T),
        ("Connection timed out", T),
        ("No route to host", T),
        ("Network is unreachable", T),
        ("server closed the connection unexpectedly", T),
        ("Connection reset by peer", T),
        ("FATAL:  the database system is starting up", T),
        ("FATAL:  the database system is shutting down", T),
        ("FATAL:  the database system is not yet accepting connections", T),
        ("FATAL:  sorry, too many clients already", T),
        ('FATAL:  too many connections for role "app"', T),
        ("FATAL:  remaining connection slots are reserved for superusers", T),
        ("FATAL:  server login has been failing, try again later (server_login_retry)", T),
        ('FATAL:  password authentication failed for user "app"', P),
        ('FATAL:  role "app" does not exist', P),
        ('FATAL:  database "app" does not exist', P),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.2"', P),
        ("fe_sendauth: no password supplied", P),
        ("server does not support SSL, but SSL was required", P),
        ("SSL error: certificate verify failed", P),
        ("SSL SYSCALL error: EOF detected", T),
        ("SSL SYSCALL error: Connection reset by peer", T),
        ('root certificate file "x" does not exist', P),
        ("server is not in hot standby mode", S),
        ("session is read-only", S),
    ],
)
def test_a_connection_that_was_not_made_is_judged_by_its_text(path: str, text: str, kind: FaultKind) -> None:
    cls = driver_class(path)
    assert classify(cls(SERVER + text)).kind is kind
    assert classify(cls(f"connection failed: {SERVER}{text}")).kind is kind


@pytest.mark.parametrize("path", LIBPQ)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("consuming input failed: server closed the connection unexpectedly", A),
        (
            "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally",
            A,
        ),
        ("SSL connection has been closed unexpectedly", A),
        ("sending query failed: no connection to the server", A),
        ("sending query failed: another command is already in progress", P),
        ("something that nobody has seen yet", A),
        ("the connection is closed", S),
        ("the connection is lost", S),
        ('could not translate host name "db" to address: Name or service not known', P),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", P),
        ('could not translate host name "db" to address: Temporary failure in name resolution', T),
        ("connection timeout expired", T),
        ('could not connect to server: Connection refused\n\tIs the server running on host "db"?', T),
        ('connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory', T),
    ],
)
def test_without_a_state_the_text_says_whether_the_connection_was_lost(
    path: str, text: str, kind: FaultKind
) -> None:
    assert classify(driver_class(path)(text)).kind is kind


def test_a_base_class_says_nothing_about_a_password() -> None:
    """Trap: 28P01 is an OperationalError, the class that lost connections have."""
    assert issubclass(psycopg.errors.InvalidPassword, psycopg.OperationalError)
    assert classify(psycopg.errors.InvalidPassword("x")).why == "SQLSTATE 28P01 not authorized"


def test_a_closed_session_is_stale_although_it_is_an_internal_error() -> None:
    """Trap: 25P03 is an InternalError, not an OperationalError."""
    assert not issubclass(psycopg.errors.IdleInTransactionSessionTimeout, psycopg.OperationalError)
    assert classify(psycopg.errors.IdleInTransactionSessionTimeout("x")).kind is S


def test_psycopg2_has_its_state_under_another_name() -> None:
    error = with_fields(driver_class("psycopg2.errors.DeadlockDetected")("deadlock detected"), pgcode="40P01")
    assert classify(error).why.startswith("SQLSTATE 40P01 deadlock")
    closed = driver_class("psycopg2.InterfaceError")("connection already closed")
    assert classify(closed).kind is S
    assert classify(driver_class("psycopg2.InterfaceError")("cursor already closed")).kind is P
    assert classify(driver_class("psycopg2.pool.PoolError")("connection pool exhausted")).kind is T
    lost = driver_class("psycopg2.DatabaseError")("SSL SYSCALL error: EOF detected")
    assert classify(lost).kind is A


@pytest.mark.parametrize(
    ("cls", "kind"),
    [("PoolTimeout", T), ("TooManyRequests", T), ("PoolClosed", P)],
)
def test_the_pool_of_psycopg(cls: str, kind: FaultKind) -> None:
    assert classify(driver_class(f"psycopg_pool.{cls}", base=psycopg.OperationalError)("text")).kind is kind


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (psycopg.errors.QueryCanceled("canceling statement due to user request"), N),
        (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), P),
        (psycopg.errors.ProtocolViolation("query_wait_timeout"), T),
        (psycopg.errors.ConnectionTimeout("connection timeout expired"), T),
        (psycopg.errors.CancellationTimeout("cancellation timeout expired"), A),
        (psycopg.errors.PipelineAborted("pipeline aborted"), P),
        (psycopg.ProgrammingError("the last operation didn't produce records"), P),
        (psycopg.InterfaceError("the cursor is closed"), P),
        (psycopg.DataError("integer out of range"), P),
        (asyncpg.QueryCanceledError("canceling statement due to user request"), N),
        (asyncpg.ProtocolViolationError("query_wait_timeout"), T),
        (asyncpg.InterfaceError("connection is closed"), S),
        (asyncpg.InterfaceError("cannot call Connection.fetch(): the underlying connection is closed"), S),
        (asyncpg.InterfaceError("cannot perform operation: another operation is in progress"), P),
        (asyncpg.InterfaceError("pool is closing"), P),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), A),
        (asyncpg.exceptions.TargetServerAttributeNotMatched("None of the hosts match"), S),
        (asyncpg.exceptions.InvalidCachedStatementError("cached statement plan is invalid"), T),
        (asyncpg.exceptions.OutdatedSchemaCacheError("x"), T),
        (asyncpg.exceptions.ProtocolError("x"), P),
        (asyncpg.PostgresError("no state"), P),
    ],
    ids=lambda value: f"{type(value).__name__}-{value}" if isinstance(value, Exception) else None,
)
def test_classes_that_need_a_word_of_their_own(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind


def test_a_refusal_of_the_server_is_an_answer_and_a_lost_connection_a_failure() -> None:
    for exc, signal in (
        (psycopg.errors.UniqueViolation("x"), Signal.ANSWER),
        (psycopg.errors.InvalidPassword("x"), Signal.ANSWER),
        (psycopg.OperationalError("the connection is closed"), Signal.NEUTRAL),
        (psycopg.OperationalError("server closed the connection unexpectedly"), Signal.FAILURE),
        (psycopg.errors.ConnectionTimeout("x"), Signal.OVERLOAD),
    ):
        assert signal_of(exc, classify(exc), wanted=False) is signal, exc


class HostileError(psycopg.OperationalError):
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_an_error_that_cannot_be_read_is_permanent() -> None:
    assert classify(HostileError()).kind is P
