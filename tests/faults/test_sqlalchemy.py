"""SQLAlchemy's wrappers over made errors; those of real drivers and servers are in tests/integration."""

from __future__ import annotations

import pickle

import pytest

from perdure.faults import Fault, FaultKind, classify
from tests.faults.sql_classes import driver_class

exc = pytest.importorskip("sqlalchemy.exc")
pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

T, A, S, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT


def driver(path: str, *args: object) -> Exception:
    return driver_class(path)(*args)


def wrapped(
    below: BaseException | None, cls: str = "OperationalError", *, invalidated: bool = False
) -> Exception:
    made: Exception = getattr(exc, cls)("select 1", {}, below, connection_invalidated=invalidated)
    return made


@pytest.mark.parametrize(
    ("below", "kind"),
    [
        (driver("psycopg.errors.DeadlockDetected", "x"), T),
        (driver("psycopg.errors.InvalidPassword", "x"), P),
        (driver("psycopg.OperationalError", "server closed the connection unexpectedly"), A),
        (driver("psycopg.OperationalError", "the connection is closed"), S),
        (driver("pymysql.err.OperationalError", 1213, "x"), T),
        (driver("pymysql.err.OperationalError", 1045, "x"), P),
        (driver("sqlite3.OperationalError", "database is locked"), T),
        (driver("pyodbc.Error", "08S01", "[08S01] cut (SQLExecDirectW)"), A),
        (TimeoutError(), A),
        (TypeError("bind"), P),
    ],
    ids=repr,
)
def test_what_the_driver_said_decides(below: Exception, kind: FaultKind) -> None:
    assert classify(wrapped(below)) == classify(below)
    assert classify(wrapped(below)).kind is kind


def test_the_driver_is_heard_without_a_cause_too() -> None:
    """A pickled exception has lost its cause; `orig` travels with it."""
    below = driver("sqlite3.OperationalError", "database is locked")
    travelled = pickle.loads(pickle.dumps(wrapped(below)))
    assert travelled.__cause__ is None
    assert classify(travelled).kind is T


@pytest.mark.parametrize(
    ("below", "kind"),
    [
        # What asked for another connection has it: the pool dropped this one.
        (driver("psycopg.errors.IdleSessionTimeout", "x"), T),
        (driver("psycopg.OperationalError", "the connection is closed"), T),
        # Whether a lost commit took effect is as unknown as before.
        (driver("psycopg.OperationalError", "server closed the connection unexpectedly"), A),
        (driver("pymysql.err.OperationalError", 2013, "lost"), A),
        (driver("psycopg.errors.UniqueViolation", "x"), P),
        (Exception("a driver nobody knows"), S),
        (None, S),
    ],
    ids=repr,
)
def test_a_connection_that_the_pool_dropped(below: Exception | None, kind: FaultKind) -> None:
    fault = classify(wrapped(below, invalidated=True))
    assert fault.kind is kind
    assert fault.why


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached"), T),
        (exc.DisconnectionError("x"), S),
        (exc.InvalidatePoolError("x"), S),
        (exc.PendingRollbackError("x"), P),
        (exc.ResourceClosedError("This Connection is closed"), P),
        (exc.NoResultFound("x"), P),
        (exc.ArgumentError("x"), P),
        (exc.StatementError("m", "select 1", {}, ValueError("bind")), P),
        (exc.StatementError("m", "select 1", {}, None), P),
    ],
    ids=repr,
)
def test_its_own_errors(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


def test_its_pool_timeout_is_no_builtin_timeout() -> None:
    """Trap: the name is the same, the class is not."""
    assert not issubclass(exc.TimeoutError, TimeoutError)
    assert classify(exc.TimeoutError("x")) == Fault(T, None, "waiting for a connection of the pool timed out")
