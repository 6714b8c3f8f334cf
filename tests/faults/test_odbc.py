"""pyodbc: its exceptions hold the driver's state and a text that ends in the server's number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.odbc import _ERRORS
from tests.faults.sql_classes import driver_class

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P = FaultKind.STALE, FaultKind.PERMANENT

ROWS = {
    T: (
        1205,
        1222,
        1204,
        615,
        926,
        4060,
        4221,
        40020,
        40143,
        40166,
        40197,
        40540,
        40613,
        42108,
        42109,
        11001,
    ),
    R: (10928, 10929, 40501, 49918, 49919, 49920),
    A: (0, 20, 64, 121, 233, 997, 10053, 10054, 10060, -2),
    P: (18456, 40544, 40549, 40550, 40551, 40552, 40553, 102, 547, 2627, 99_999),
}
DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"

LIBPQ = 'connection to server at "127.0.0.1", port 5432 failed: '


def failed(state: str, text: str, name: str = "Error") -> Exception:
    return driver_class(f"pyodbc.{name}")(state, f"[{state}] {text}")


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind, row in ROWS.items() for number in row])
def test_the_number_of_sql_server_decides(kind: FaultKind, number: int) -> None:
    fault = classify(failed("HY000", f"{DRIVER}Something happened. ({number}) (SQLExecDirectW)"))
    assert fault.kind is kind
    known = kind is not P or 40_544 <= number <= 40_553
    assert fault.why.startswith(f"SQL Server error {number}: " if known else "ODBC HY000")


def test_azure_asks_for_ten_seconds() -> None:
    text = f"{DRIVER}The service is currently busy. Retry the request after 10 seconds. (40501) (SQLDriverConnect)"
    assert classify(failed("42000", text)) == Fault(R, 10.0, "SQL Server error 40501: service busy")


@pytest.mark.parametrize(
    ("state", "text", "kind"),
    [
        ("08S01", f"{DRIVER}TCP Provider: reset (SQLExecDirectW)", A),
        ("08001", f"{DRIVER}TCP Provider: No connection could be made. (10061) (SQLDriverConnect)", T),
        ("08001", f"{DRIVER}TCP Provider: An existing connection was closed (10054) (SQLDriverConnect)", T),
        ("08001", f"{LIBPQ}Connection refused\n (101) (SQLDriverConnect)", T),
        ("08001", f'{LIBPQ}FATAL:  role "app" does not exist\n (101) (SQLDriverConnect)', P),
        ("08001", f"{LIBPQ}FATAL:  sorry, too many clients already\n (101) (SQLDriverConnect)", T),
        (
            "08S01",
            "[FreeTDS][SQL Server]Unable to connect: server is unavailable (20009) (SQLDriverConnect)",
            T,
        ),
        ("HYT00", f"{DRIVER}Login timeout expired (0) (SQLDriverConnect)", T),
        ("HYT00", f"{DRIVER}Query timeout expired (0) (SQLExecDirectW)", A),
        ("HYT01", f"{DRIVER}Connection timeout expired (0) (SQLExecDirectW)", T),
        ("40001", f"{DRIVER}was deadlocked on lock resources (SQLExecDirectW)", T),
        ("28000", f"{DRIVER}Login failed for user 'app'. (18456) (SQLDriverConnect)", P),
        ("23000", f"{DRIVER}Violation of PRIMARY KEY constraint 'PK (1205)'. (2627) (SQLExecDirectW)", P),
        ("42000", f"{DRIVER}Cannot convert (64) to date (241) (SQLExecDirectW)", P),
        ("01000", "[unixODBC][Driver Manager]Can't open lib 'x' : file not found (0) (SQLDriverConnect)", P),
        ("IM002", "[unixODBC][Driver Manager]Data source name not found (0) (SQLDriverConnect)", P),
        ("HY000", "[unixODBC]nobody knows (64) (SQLExecDirectW)", P),
        ("40P01", "ERROR: deadlock detected;\nError while executing the query (1) (SQLExecDirectW)", T),
        ("57014", "ERROR: canceling statement due to user request (1) (SQLExecDirectW)", FaultKind.NEUTRAL),
        (
            "HY000",
            "[MySQL][ODBC 8.4(w) Driver][mysqld-8.4]Lock wait timeout exceeded (1205) (SQLExecDirectW)",
            T,
        ),
        ("42000", "[ma-3.1.15][10.11.6-MariaDB]Unknown database (1049) (SQLDriverConnect)", P),
        ("08S01", "[MySQL][ODBC 8.4(w) Driver]Lost connection during query (2013) (SQLExecDirectW)", A),
    ],
)
def test_state_and_text(state: str, text: str, kind: FaultKind) -> None:
    assert classify(failed(state, text)).kind is kind


def test_of_several_records_the_first_that_is_known_decides() -> None:
    text = (
        f"{DRIVER}Statement ended. (3621) (SQLExecDirectW); [40001] {DRIVER}Deadlock. (1205) (SQLExecDirectW)"
    )
    assert classify(failed("42000", text)).why.startswith("SQL Server error 1205: deadlock")


@pytest.mark.parametrize("name", ["OperationalError", "ProgrammingError", "InterfaceError", "IntegrityError"])
def test_the_class_does_not_count(name: str) -> None:
    assert classify(failed("08S01", f"{DRIVER}cut (64) (SQLExecDirectW)", name)).kind is A


@pytest.mark.parametrize("args", [(), (1,), ("text",), (None, None), ("08S01",)])
def test_an_error_made_by_hand_gives_a_fault(args: tuple[object, ...]) -> None:
    assert classify(driver_class("pyodbc.Error")(*args)).kind is (A if args == ("08S01",) else P)


@given(st.text(max_size=60))
def test_any_text_gives_a_fault(text: str) -> None:
    assert classify(failed("HY000", DRIVER + text)).why


PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults" / "databases.md"


def test_the_page_lists_the_numbers_that_pass() -> None:
    table = (
        PAGE.read_text(encoding="utf-8").partition("| SQL Server, Azure SQL | kind |")[2].partition("\n\n")[0]
    )
    listed: dict[int, str] = {}
    for numbers, kind in re.findall(r"^\| (.+) \| (\w+) \|$", table, re.MULTILINE):
        listed |= {int(number): kind for number in re.findall(r"-?\b\d+\b", re.sub(r"\(.*?\)", "", numbers))}
    passing = {number: kind for number, kind in listed.items() if kind != "permanent"}
    assert passing == {number: str(kind) for number, (kind, _) in _ERRORS.items() if kind is not P}
    assert all(
        classify(failed("HY000", f"{DRIVER}x ({number}) (SQLExecDirectW)")).kind is P
        for number in listed.keys() - passing
    )
