"""MySQL and MariaDB drivers by number; what a real server makes PyMySQL raise is in tests/integration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import FaultKind, classify
from perdure.faults.mysql import fault_of_number
from tests.faults.sql_classes import driver_class, with_fields

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P = FaultKind.STALE, FaultKind.PERMANENT

DRIVERS = (
    "pymysql.err.OperationalError",
    "MySQLdb._exceptions.OperationalError",
    "asyncmy.errors.OperationalError",
    "mysql.connector.errors.OperationalError",
    "mariadb.OperationalError",
)
ROWS = {
    T: (1213, 1205, 1020, 1614, 1689, 3101, 3572, 2002, 2003, 2005, 1040, 1203),
    R: (1226,),
    A: (2006, 2013, 2055, 1053, 1158, 1159, 1160, 1161, 1317, 1927, 4031),
    S: (1792, 1836),
    P: (
        1044,
        1045,
        1049,
        1062,
        1064,
        1129,
        1142,
        1143,
        1146,
        1451,
        1452,
        1698,
        3024,
        1969,
        1290,
        1047,
        99_999,
    ),
}


def numbered(path: str, number: int, **fields: object) -> Exception:
    """Two of the drivers have the number in an attribute, the others in front of the text."""
    if path.startswith(("mysql.", "mariadb.")):
        return with_fields(driver_class(path)("text"), errno=number, **fields)
    return driver_class(path)(number, "text")


@pytest.mark.parametrize("path", DRIVERS)
@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind, row in ROWS.items() for number in row])
def test_a_number_decides_in_every_driver(path: str, kind: FaultKind, number: int) -> None:
    fault = classify(numbered(path, number))
    assert fault.kind is kind
    assert fault.why.startswith(f"MySQL error {number}")


@pytest.mark.parametrize(
    ("number", "text", "kind"),
    [
        (
            1290,
            "The MariaDB server is running with the --read-only option so it cannot execute this statement",
            S,
        ),
        (1290, "The MySQL server is running with the --super-read-only option so it cannot", S),
        (1290, "The MySQL server is running with the --secure-file-priv option so it cannot", P),
        (1047, "WSREP has not yet prepared node for application use", T),
        (1047, "Unknown command", P),
        (
            2013,
            "Lost connection to MySQL server at 'reading initial communication packet', system error: 0",
            T,
        ),
        (2013, "Lost connection to MySQL server at 'handshake: reading initial communication packet'", T),
        (2013, "Lost connection to MySQL server during query", A),
    ],
)
def test_the_text_tells_apart_what_shares_a_number(number: int, text: str, kind: FaultKind) -> None:
    assert classify(driver_class(DRIVERS[0])(number, text)).kind is kind


@pytest.mark.parametrize("number", [1044, 1045, 1142, 1143])
def test_a_missing_right_is_permanent_although_it_is_an_operational_error(number: int) -> None:
    """Trap: PyMySQL gives these the class of deadlocks and lost connections."""
    err = pytest.importorskip("pymysql.err")
    assert err.error_map[number] is err.OperationalError
    assert classify(err.OperationalError(number, "denied")).kind is P


@pytest.mark.parametrize(
    ("path", "args", "kind"),
    [
        ("pymysql.err.InterfaceError", (0, ""), S),
        ("pymysql.err.Error", ("Already closed",), S),
        ("pymysql.err.InternalError", ("Packet sequence number wrong - got 1 expected 2",), P),
        ("pymysql.err.ProgrammingError", (1064, "syntax"), P),
        ("pymysql.err.IntegrityError", (1062, "duplicate"), P),
        ("pymysql.err.OperationalError", (), P),
        ("asyncmy.errors.InterfaceError", (0, "Not connected"), S),
        ("mysql.connector.errors.OperationalError", ("MySQL Connection not available.",), S),
        ("mysql.connector.errors.PoolError", ("Failed getting connection; pool exhausted",), T),
        ("mysql.connector.errors.PoolError", ("Pool name must be a string",), P),
        ("mysql.connector.errors.ConnectionTimeoutError", ("x",), T),
        ("mysql.connector.errors.ReadTimeoutError", ("x",), A),
        ("mysql.connector.errors.WriteTimeoutError", ("x",), A),
        ("mariadb.PoolError", ("No connection available",), T),
    ],
)
def test_what_has_no_number_of_the_server(path: str, args: tuple[object, ...], kind: FaultKind) -> None:
    assert classify(driver_class(path)(*args)).kind is kind


def test_a_number_in_an_attribute_outranks_a_vague_state() -> None:
    """MariaDB and mysql-connector give HY000, "general error", with most numbers."""
    for path in ("mysql.connector.errors.DatabaseError", "mariadb.DatabaseError"):
        error = numbered(path, 1205, sqlstate="HY000")
        assert classify(error).why.startswith("MySQL error 1205: lock wait timeout")


@given(st.integers(), st.text(max_size=20))
def test_any_number_gives_a_fault(number: int, text: str) -> None:
    assert fault_of_number(number, text).why.startswith(("MySQL error ", "connection lost while"))
