"""SMTP by reply code and enhanced status: exceptions of `smtplib` and `aiosmtplib`."""

from __future__ import annotations

import re

from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.network import functions_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

GREYLISTED = 300.0
"""Seconds: a server that has never seen a sender takes its mail from the second attempt after minutes on."""

_ENHANCED = re.compile(r"\b[245]\.(\d{1,3}\.\d{1,3})\b")
_DELAY = re.compile(r"\b(\d{1,6}) ?(second|sec|s|minute|min|m|hour|h)(?:s|\b)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600}
_LATER = ("try again", "try later", "temporar", "rate limit", "rate exceeded", "too many", "throttl")
_NO_ROOM_FOR_ALL = "too many recipients"


def fault_of_reply(code: object, text: object) -> Fault:
    """Classify a reply of a mail server: 4yz means later, 5yz never, and the words after it may say more."""
    words = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    if not isinstance(code, int) or not 400 <= code <= 599:
        return _ODD
    why = f"SMTP {code}"
    if code >= 500:
        return Fault(_kind_of_refusal(code, words.lower()), None, why)
    if code == 421:
        return Fault(FaultKind.THROTTLED, _asked(words), "SMTP 421 (service closes the connection)")
    if code in (450, 451) and _is_greylisting(words):
        return Fault(FaultKind.TRANSIENT, max(_asked(words) or 0, GREYLISTED), f"{why} (greylisted)")
    return Fault(FaultKind.TRANSIENT, _asked(words), why)


_ODD = Fault(FaultKind.AMBIGUOUS, None, "garbage instead of an SMTP reply")


def _kind_of_refusal(code: int, words: str) -> FaultKind:
    """Never, but for hosts that say 5yz where RFC 5321 has 4yz.

    That is 552 for recipients that are too many, and 550 and 554 for senders that are too fast.
    """
    if code == 552 and _NO_ROOM_FOR_ALL in words:
        return FaultKind.TRANSIENT
    if code in (550, 554) and any(word in words for word in _LATER):
        return FaultKind.THROTTLED
    return FaultKind.PERMANENT


def _is_greylisting(words: str) -> bool:
    lower = words.lower()
    enhanced = _ENHANCED.search(words)
    return "greylist" in lower or "graylist" in lower or (enhanced is not None and enhanced[1] == "7.1")


def _asked(words: str) -> float | None:
    """The delay in the text, which is for people: only a plain number with its unit counts."""
    match = _DELAY.search(words)
    if match is None:
        return None
    return float(match[1]) * _UNITS[match[2][0].lower()] or None


def _by_reply(exc: Any) -> Fault:
    code = getattr(exc, "smtp_code", None)
    if code is not None:
        return fault_of_reply(code, exc.smtp_error)
    return fault_of_reply(getattr(exc, "code", None), getattr(exc, "message", ""))


_NOT_CONNECTED = Fault(FaultKind.TRANSIENT, None, "cannot connect to the mail server")


def _connect_error(exc: Any) -> Fault:
    """Refused before any mail: what is no reply at all is a server that is not there."""
    fault = _by_reply(exc)
    return _NOT_CONNECTED if fault is _ODD else fault


_NOBODY = Fault(FaultKind.PERMANENT, None, "every recipient refused")


def _recipients(exc: Any) -> Fault:
    """All were refused, so nothing was sent: another attempt is worth it while one of them may be taken."""
    later = [fault for fault in _of_each(exc.recipients) if fault.kind is not FaultKind.PERMANENT]
    if not later:
        return _NOBODY
    hints = [fault.hint for fault in later if fault.hint is not None]
    chosen = next((fault for fault in later if fault.kind is FaultKind.THROTTLED), later[0])
    return Fault(chosen.kind, max(hints, default=None), f"recipients refused, {chosen.why}")


def _of_each(recipients: Any) -> Iterator[Fault]:
    """A dict of replies in smtplib, a list of exceptions in aiosmtplib."""
    if hasattr(recipients, "values"):
        yield from (fault_of_reply(*reply) for reply in recipients.values())
    else:
        yield from (_by_reply(refused) for refused in recipients)


_AFTER = "mail server gone after the mail was sent"
_BEFORE = "mail server gone before the mail was sent"
_CLOSED = Fault(FaultKind.STALE, None, "not connected to the mail server: connect first")
_NEVER_CONNECTED = ("connect() first", "not connected")  # smtplib's words, aiosmtplib's words
_EARLIER = frozenset({"connect", "ehlo", "helo", "starttls", "login", "auth", "mail", "rcpt"})


def _disconnected(exc: Any) -> Fault:
    """A timeout comes as a disconnection too; and only the stack says how far the mail got."""
    text = str(exc)
    steps = functions_of(exc, "smtplib")  # aiosmtplib has the same steps under the same names
    # By the second recipient it was connected: the server hung up after its answer to the first.
    if any(words in text for words in _NEVER_CONNECTED) and "rcpt" not in steps:
        return _CLOSED
    late = ", timed out" if "timed out" in text else ""
    if "data" not in steps and steps & _EARLIER:
        return Fault(FaultKind.TRANSIENT, None, _BEFORE + late)
    return Fault(FaultKind.AMBIGUOUS, None, _AFTER + late if "data" in steps else f"mail server gone{late}")


_NOT_SUPPORTED = Fault(FaultKind.PERMANENT, None, "not supported by the mail server")
_OTHER = Fault(FaultKind.PERMANENT, None, "SMTP error")
_CONNECT_TIMEOUT = Fault(FaultKind.TRANSIENT, None, "connecting to the mail server timed out")
_TIMEOUT = Fault(FaultKind.AMBIGUOUS, None, "waiting for the mail server timed out")

_BOTH: dict[str, Step] = {
    "SMTPException": _OTHER,
    "SMTPServerDisconnected": _disconnected,
    "SMTPResponseException": _by_reply,
    "SMTPConnectError": _connect_error,
    "SMTPHeloError": _connect_error,
    "SMTPRecipientsRefused": _recipients,
}

RULES: dict[str, Step] = {
    **{f"smtplib.{name}": step for name, step in _BOTH.items()},
    "smtplib.SMTPNotSupportedError": _NOT_SUPPORTED,
    **{f"aiosmtplib.errors.{name}": step for name, step in _BOTH.items()},
    "aiosmtplib.errors.SMTPNotSupported": _NOT_SUPPORTED,
    "aiosmtplib.errors.SMTPTimeoutError": _TIMEOUT,
    "aiosmtplib.errors.SMTPConnectTimeoutError": _CONNECT_TIMEOUT,
}
