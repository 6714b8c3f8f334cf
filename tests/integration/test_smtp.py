"""Mail servers that refuse, hang up or keep silent, at each step of a real dialogue."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.faults import Fault, FaultKind, classify
from perdure.faults.kinds import Safety
from perdure.testing import no_waits

if TYPE_CHECKING:
    from collections.abc import Iterator

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
P = FaultKind.PERMANENT

CUT, SILENCE = "cut", "silence"
USUAL = {"EHLO": "250-host\r\n250 AUTH PLAIN", "DATA": "354 go on", "QUIT": "221 bye", "AUTH": "235 ok"}
FROM, TO = "from@a.example", ["one@b.example", "two@b.example"]


class MailServer:
    """Answers as told: by verb, by address, `CONNECT` and `END` (of the mail). All else is taken."""

    def __init__(self, **replies: str) -> None:
        self.replies = {**USUAL, **replies}
        self.mails = 0
        self.port = 0

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(10)
                with connection, connection.makefile("rb") as lines:
                    self.talk(connection, lines)

    def talk(self, connection: socket.socket, lines: Any) -> None:
        if not self.answer(connection, "CONNECT", "220 ready"):
            return
        for line in lines:
            words = line.decode().strip()
            if words.upper() == "DATA" and self.replies["DATA"].startswith("354"):
                if not self.answer(connection, "DATA"):
                    return
                while lines.readline() not in (b".\r\n", b""):
                    pass
                self.mails += 1
                words = "END"
            address = next((name for name in self.replies if name in words), None)
            if not self.answer(connection, address or words.split(" ", 1)[0].upper()):
                return

    def answer(self, connection: socket.socket, step: str, usual: str = "250 ok") -> bool:
        reply = self.replies.get(step, usual)
        if reply == SILENCE:
            connection.recv(1)  # until the client has had enough
        if reply in (CUT, SILENCE):
            return False
        connection.sendall(f"{reply}\r\n".encode())
        return True


@contextmanager
def server(**replies: str) -> Iterator[MailServer]:
    mail = MailServer(**replies)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mail.port = listener.getsockname()[1]
        thread = threading.Thread(target=mail.serve, args=(listener,))
        thread.start()
        yield mail
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(15)
    assert not thread.is_alive()


def send(mail: MailServer, *, login: bool = False, timeout: float = 10) -> dict[str, tuple[int, bytes]]:
    with smtplib.SMTP("127.0.0.1", mail.port, timeout=timeout, local_hostname="h") as client:
        if login:
            client.login("user", "secret")
        return client.sendmail(FROM, TO, "Subject: x\n\ntext")


def failure(mail: MailServer, **options: Any) -> Exception:
    with pytest.raises(OSError, match=r".") as caught:
        send(mail, **options)
    return caught.value


STEPS = [
    ("CONNECT", "421 4.3.2 too busy", R, None),
    ("CONNECT", "554 5.7.1 not for you", P, None),
    ("CONNECT", CUT, T, None),
    ("EHLO", CUT, T, None),
    ("MAIL", "451 4.3.0 local error", T, None),
    ("MAIL", "452 4.3.1 no room", T, None),
    ("MAIL", "421 4.7.0 closing", R, None),
    ("MAIL", "550 5.7.1 not you", P, None),
    ("MAIL", CUT, T, None),
    ("RCPT", "450 4.7.1 Greylisted, come back", T, 300.0),
    ("RCPT", "451 4.7.1 Greylisted for 15 minutes", T, 900.0),
    ("RCPT", "550 5.1.1 no such user", P, None),
    ("RCPT", "421 4.7.0 closing", R, None),
    ("RCPT", CUT, T, None),
    ("DATA", "451 4.3.0 later", T, None),
    ("DATA", "554 5.6.0 never", P, None),
    ("DATA", "354 go on", None, None),
    ("END", "451 4.3.0 not stored", T, None),
    ("END", "421 4.3.2 closing", R, None),
    ("END", "554 5.7.1 spam", P, None),
    ("END", "552 5.3.4 too big", P, None),
    ("END", CUT, A, None),
]


@pytest.mark.parametrize(("step", "reply", "kind", "hint"), STEPS)
def test_a_reply_at_a_step_of_the_dialogue(
    step: str, reply: str, kind: FaultKind | None, hint: float | None
) -> None:
    with server(**{step: reply}) as mail:
        if kind is None:
            assert send(mail) == {}
        else:
            fault = classify(failure(mail))
            assert (fault.kind, fault.hint) == (kind, hint)


def test_a_login_that_is_refused_or_cannot_be_checked_now() -> None:
    for reply, kind in (("535 5.7.8 wrong", P), ("454 4.7.0 try again later", T), (CUT, T)):
        with server(AUTH=reply) as mail:
            assert classify(failure(mail, login=True)).kind is kind


def test_some_recipients_refused_is_no_failure_and_says_whom_to_send_to_again() -> None:
    with server(**{TO[1]: "450 4.2.0 busy"}) as mail:
        refused = send(mail)
    assert list(refused) == [TO[1]]
    assert mail.mails == 1


def test_all_recipients_refused_is_worth_another_attempt_for_one_of_them() -> None:
    with server(**{TO[0]: "550 5.1.1 unknown", TO[1]: "450 4.2.0 busy"}) as mail:
        assert classify(failure(mail)) == Fault(T, None, "recipients refused, SMTP 450")
    assert mail.mails == 0


def test_a_mail_whose_acceptance_got_lost_is_not_sent_twice() -> None:
    policy = perdure.Retry(attempts=3, safety=Safety.UNSAFE)
    with no_waits():
        with server(END=CUT) as mail:
            assert policy.outcome(send, mail).stop == "unsafe"
        assert mail.mails == 1
        with server(RCPT=CUT) as mail:
            assert policy.outcome(send, mail).attempts == 3  # it had not come to the mail
        assert mail.mails == 0


def test_a_greylisted_mail_is_not_hammered() -> None:
    """Its five minutes are more than the default deadline: the call ends at once, with the delay attached."""
    with server(RCPT="450 4.7.1 Greylisted") as mail, no_waits() as waits:
        outcome = perdure.Retry().outcome(send, mail)
    assert (outcome.attempts, outcome.stop, list(waits)) == (1, "deadline", [])


def test_a_silent_server_and_one_that_is_not_there() -> None:
    for step, kind in (("MAIL", T), ("END", A)):
        with server(**{step: SILENCE}) as mail:
            fault = classify(failure(mail, timeout=0.05))
        assert fault.kind is kind
        assert fault.why.endswith("timed out")  # which is a sign of congestion
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        nobody = MailServer()
        nobody.port = bound.getsockname()[1]
        assert classify(failure(nobody)) == Fault(T, None, "connection refused")


@pytest.mark.parametrize(("step", "reply", "kind", "hint"), [row for row in STEPS if row[2] is not None])
def test_a_reply_at_a_step_of_the_dialogue_with_aiosmtplib(
    step: str, reply: str, kind: FaultKind, hint: float | None
) -> None:
    aiosmtplib: Any = pytest.importorskip("aiosmtplib")

    async def send(**address: Any) -> None:
        async with aiosmtplib.SMTP(**address, start_tls=False, local_hostname="h") as client:
            await client.sendmail(FROM, TO, "Subject: x\n\ntext")

    with server(**{step: reply}) as mail:
        with pytest.raises(aiosmtplib.SMTPException) as caught:
            asyncio.run(send(hostname="127.0.0.1", port=mail.port))
        fault = classify(caught.value)
    if (step, kind) == (
        "RCPT",
        R,
    ):  # aiosmtplib goes on to the next recipient, and finds the connection closed
        kind = T
    assert (fault.kind, fault.hint) == (kind, hint)
