"""SMTP by reply; against a real dialogue in tests/integration/test_smtp.py."""

from __future__ import annotations

import smtplib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, Retryable, classify

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P = FaultKind.STALE, FaultKind.PERMANENT

REPLIES = [
    (421, b"4.3.2 Service shutting down", R, None),
    (421, b"4.7.0 Try again later", R, None),
    (432, b"4.7.12 A password transition is needed", T, None),
    (450, b"4.2.0 Mailbox busy", T, None),
    (450, b"4.7.1 Client host rejected: cannot find your hostname", T, 300.0),
    (450, b"4.2.0 Greylisted", T, 300.0),
    (451, b"4.7.1 Greylisting in action, please come back in 10 minutes", T, 600.0),
    (451, b"4.7.1 Greylisting in action, please come back in 60 seconds", T, 300.0),
    (451, b"Temporarily deferred: graylisted, try in 1 hour", T, 3600.0),
    (451, b"4.3.0 Local error", T, None),
    (451, b"4.3.0 Try again in 45 seconds", T, 45.0),
    (451, b"4.3.0 Try again in 0 seconds", T, None),
    (452, b"4.3.1 Insufficient system storage", T, None),
    (452, b"4.5.3 Too many recipients", T, None),
    (454, b"4.7.0 Temporary authentication failure", T, None),
    (455, b"Parameters not accommodated", T, None),
    (458, b"Unable to queue", T, None),
    (500, b"5.5.2 Syntax error", P, None),
    (503, b"5.5.1 Bad sequence", P, None),
    (530, b"5.7.0 Authentication required", P, None),
    (534, b"5.7.9 Mechanism too weak", P, None),
    (535, b"5.7.8 Bad credentials", P, None),
    (550, b"5.1.1 No such user", P, None),
    (550, b"5.7.1 Message rejected as spam", P, None),
    (550, b"5.7.0 Rate limit exceeded", R, None),
    (550, b"5.4.5 Too many messages, try again later", R, None),
    (551, b"User not local", P, None),
    (552, b"5.2.2 Mailbox full", P, None),
    (552, b"Too many recipients", T, None),
    (553, b"Mailbox name not allowed", P, None),
    (554, b"5.7.1 Temporarily blocked", R, None),
    (554, b"Transaction failed", P, None),
]


@pytest.mark.parametrize(("code", "text", "kind", "hint"), REPLIES)
def test_a_reply(code: int, text: bytes, kind: FaultKind, hint: float | None) -> None:
    fault = classify(smtplib.SMTPDataError(code, text))
    assert (fault.kind, fault.hint) == (kind, hint)
    assert fault.why.startswith(f"SMTP {code}")


@pytest.mark.parametrize(
    "make",
    [
        smtplib.SMTPDataError,
        smtplib.SMTPHeloError,
        smtplib.SMTPConnectError,
        smtplib.SMTPAuthenticationError,
        smtplib.SMTPResponseException,
        lambda code, text: smtplib.SMTPSenderRefused(code, text, "a@example.com"),
        lambda code, text: smtplib.SMTPRecipientsRefused({"b@example.com": (code, text)}),
    ],
)
def test_every_class_with_a_reply_goes_by_it(make: Any) -> None:
    assert classify(make(421, b"x")).kind is R
    assert classify(make(451, b"x")).kind is T
    assert classify(make(550, b"no such user")).kind is P


def test_a_login_is_wrong_for_good_or_cannot_be_checked_now() -> None:
    assert classify(smtplib.SMTPAuthenticationError(535, b"x")).kind is P
    assert classify(smtplib.SMTPAuthenticationError(454, b"x")).kind is T


def test_recipients_are_worth_another_attempt_while_one_may_be_taken() -> None:
    """When all are refused nothing was sent, so nobody gets the mail twice."""

    def refused(*replies: tuple[int, bytes]) -> Fault:
        return classify(
            smtplib.SMTPRecipientsRefused({f"{n}@a.example": reply for n, reply in enumerate(replies)})
        )

    assert refused((550, b"no"), (551, b"no")) == Fault(P, None, "every recipient refused")
    assert refused((550, b"no"), (450, b"busy")) == Fault(T, None, "recipients refused, SMTP 450")
    assert refused((451, b"4.7.1 x"), (450, b"in 900 seconds: greylisted")).hint == 900.0
    assert refused((450, b"busy"), (421, b"closing")).kind is R
    assert refused().kind is P


def test_what_is_no_reply() -> None:
    assert classify(smtplib.SMTPResponseException(-1, b"")).kind is A
    assert classify(smtplib.SMTPConnectError(-1, b"")) == Fault(T, None, "cannot connect to the mail server")
    assert classify(smtplib.SMTPConnectError("x", None)).kind is T  # type: ignore[arg-type]


def test_the_other_classes() -> None:
    assert classify(smtplib.SMTPServerDisconnected("Connection unexpectedly closed")).kind is A
    assert classify(smtplib.SMTPServerDisconnected("please run connect() first")).kind is S
    assert classify(smtplib.SMTPNotSupportedError("x")).kind is P
    assert classify(smtplib.SMTPException("No suitable authentication method found.")).kind is P


def test_a_greylisted_mail_says_when_to_come_back() -> None:
    fault = classify(smtplib.SMTPDataError(451, b"4.7.1 Greylisted"))
    assert fault.retryable is Retryable.AFTER


@given(st.integers(), st.binary() | st.text())
def test_any_reply_has_an_answer(code: int, text: Any) -> None:
    fault = classify(smtplib.SMTPDataError(code, text))
    assert fault.kind in (T, R, A, P)
    assert fault.hint is None or 0 < fault.hint < 1e10
    assert not fault.why.startswith("reading it")


@given(
    st.integers(1, 999_999),
    st.sampled_from([("s", 1), ("seconds", 1), ("min", 60), ("minutes", 60), ("h", 3600)]),
)
def test_a_delay_in_words_is_read(number: int, unit: tuple[str, int]) -> None:
    fault = classify(smtplib.SMTPDataError(451, f"4.3.0 try again in {number} {unit[0]}.".encode()))
    assert fault.hint == number * unit[1]


def test_aiosmtplib_has_the_same_table() -> None:
    errors: Any = pytest.importorskip("aiosmtplib.errors")
    assert classify(errors.SMTPDataError(451, "4.7.1 Greylisted")).hint == 300
    assert classify(errors.SMTPAuthenticationError(535, "x")).kind is P
    assert classify(errors.SMTPConnectResponseError(421, "x")).kind is R
    assert classify(errors.SMTPConnectError("Error connecting to h: refused")).kind is T
    assert classify(errors.SMTPConnectTimeoutError("Timed out connecting to h")).kind is T
    assert classify(errors.SMTPReadTimeoutError("Timed out waiting for server response")).kind is A
    assert classify(errors.SMTPServerDisconnected("Unexpected EOF received")).kind is A
    assert classify(errors.SMTPServerDisconnected("Server not connected")).kind is S
    assert classify(errors.SMTPNotSupported("x")).kind is P
    refused = [errors.SMTPRecipientRefused(450, "busy", "a"), errors.SMTPRecipientRefused(550, "no", "b")]
    assert classify(errors.SMTPRecipientsRefused(refused)).kind is T
    assert classify(errors.SMTPRecipientsRefused(refused[1:])).kind is P
