from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.sqlstate import fault_of_sqlstate

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P, N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL

ROWS = {
    T: "40000 40001 40P01 55P03 08001 08004 57P03 53300 72000 HYT01",
    R: "53200",
    A: "40003 08000 08003 08006 08007 08S01 57P01 57P02 HYT00",
    S: "57P05 25P03 25P04 25006",
    P: "40002 23505 23P01 23503 57P04 57014 53000 53100 53400 58030 28000 28P01 42601 42P01 22P02 3D000 25P02 "
    "08P01 0A000 XX000 P0001 ZZZZZ",
}


@pytest.mark.parametrize(
    ("kind", "state"), [(kind, state) for kind, row in ROWS.items() for state in row.split()]
)
def test_a_state_decides(kind: FaultKind, state: str) -> None:
    fault = fault_of_sqlstate(state)
    assert fault is not None
    assert fault.kind is kind
    assert fault.hint is None
    assert fault.why.startswith(f"SQLSTATE {state}")


@pytest.mark.parametrize("nothing", [None, "", 40001, "4000", "400011", "40-01", "40 01", "٤٠٠٠١", b"40001"])
def test_what_is_no_state_gives_no_fault(nothing: object) -> None:
    assert fault_of_sqlstate(nothing) is None


@pytest.mark.parametrize("state", ["00000", "01000", "02000", "HY000"])
def test_a_state_that_tells_of_no_failure_or_says_nothing_gives_no_fault(state: str) -> None:
    assert fault_of_sqlstate(state) is None


@pytest.mark.parametrize(
    ("state", "text", "kind"),
    [
        ("57014", "canceling statement due to user request", N),
        ("57014", "canceling statement due to statement timeout", P),
        ("57014", "annulation de la requête", P),
        ("08P01", "query_wait_timeout", T),
        ("08P01", "server login has been failing, try again later (server_login_retry)", T),
        ("08006", "pgbouncer cannot connect to server", T),
        ("08P01", "no more connections allowed (max_client_conn)", T),
        ("08P01", "server conn crashed?", A),
        ("08P01", "query timeout", A),
        ("08P01", "bind message supplies 1 parameters", P),
        ("40001", "query_wait_timeout", T),
    ],
)
def test_the_text_tells_apart_what_shares_a_state(state: str, text: str, kind: FaultKind) -> None:
    fault = fault_of_sqlstate(state, text)
    assert fault is not None
    assert fault.kind is kind
    assert fault.why.startswith(f"SQLSTATE {state}")


def test_waiting_for_a_connection_of_pgbouncer_counts_as_a_timeout() -> None:
    fault = fault_of_sqlstate("08P01", "query_wait_timeout")
    assert fault is not None
    assert "timeout" in fault.why


class OwnError(Exception):
    def __init__(self, state: object, text: str = "") -> None:
        super().__init__(text)
        self.sqlstate = state


def test_an_unknown_class_that_carries_a_state_is_judged_by_it() -> None:
    assert classify(OwnError("40P01")) == Fault(
        T, None, "SQLSTATE 40P01 deadlock: run the whole transaction again"
    )
    assert classify(OwnError("99")).why == "unknown exception type"


@given(st.one_of(st.text(max_size=7), st.from_regex(r"[0-9A-Z]{5}", fullmatch=True)), st.text(max_size=30))
def test_any_text_gives_a_fault_or_none(state: str, text: str) -> None:
    fault = fault_of_sqlstate(state, text)
    assert fault is None or (fault.why.startswith("SQLSTATE ") and len(state) == 5)
