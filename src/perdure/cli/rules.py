"""What one run of the command means: success, a failure worth a retry, or a failure that ends the call.

Pure: a ``Ran`` (and what verification said) comes in, a ``Verdict`` comes out. Deny beats allow. Codes are
those a shell shows: 124 for an attempt that was cut by its timeout, 128 + n for death by signal n.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.cli.child.signals import name_of
from perdure.cli.values import NO_CODES, Codes
from perdure.durations import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from perdure.cli.child.supervised import Ran

__all__ = ["Rules", "Verdict", "judge", "meaning", "what_happened"]

CANNOT_RUN = (126, 127)


class Rules(NamedTuple):
    """What the options say about exits and output. Immutable."""

    retry_exit: Codes | None = None
    stop_exit: Codes = NO_CODES
    retry_match: tuple[re.Pattern[bytes], ...] = ()
    stop_match: tuple[re.Pattern[bytes], ...] = ()
    until_fails: bool = False
    consecutive: int = 1


class Verdict(NamedTuple):
    """``kind`` is "ok", "again" (worth a retry) or "stop"; ``why`` says why so; ``code`` is the exit code.

    ``event`` is what happened without the judgement: "exited 1", "timed out after 2 s". Immutable.
    """

    kind: str
    code: int
    event: str
    why: str = ""
    success: bool = False  # of this run by itself, whatever else is asked for


def judge(rules: Rules, ran: Ran, *, verified: Ran | None = None, streak: int = 0) -> Verdict:
    """Judge one run; ``verified`` is that of ``--verify``, ``streak`` the successes in a row before it."""
    event = what_happened(ran)
    if _cannot_run(rules, ran):
        return Verdict("stop", ran.code, event, f"{ran.code} says that it cannot be run")
    if rules.until_fails:
        return _until_fails(rules, ran, event)
    if ran.code:
        return _failure(rules, ran, event)
    if verified is not None and verified.code:
        return _unverified(verified)
    if streak + 1 < rules.consecutive:
        return Verdict("again", 1, f"succeeded ({streak + 1} of {rules.consecutive} in a row)", success=True)
    return Verdict("ok", 0, event, success=True)


def what_happened(ran: Ran) -> str:
    """Say it in words: "exited 1", "was killed by SEGV", "timed out after 2 s"."""
    if ran.timed_out:
        return f"timed out after {human(ran.timeout or ran.duration)}"
    if not ran.started:
        return "could not be started"
    if ran.signal is not None:
        return f"was killed by {name_of(ran.signal)}"
    return f"exited {ran.code}"


def meaning(ran: Ran, verdict: Verdict) -> str:
    """What a run says about what it calls: "success", "failure", or "nothing".

    A failure that no retry mends is an answer, which is a success. What could not be run, was told to stop, died
    of a signal for good or has nobody who reads its output says nothing.
    """
    if verdict.success:
        return "success"
    cannot_run = verdict.kind == "stop" and verdict.code in CANNOT_RUN and not ran.timed_out
    if cannot_run or not ran.started or ran.asked_to_stop or ran.unread:
        return "nothing"
    if verdict.kind == "again" or ran.timed_out:
        return "failure"
    return "success" if ran.signal is None else "nothing"


def _cannot_run(rules: Rules, ran: Ran) -> bool:
    """126 and 127, which shells use too, unless the user says that they are worth a retry."""
    wanted = ran.started and rules.retry_exit is not None and ran.code in rules.retry_exit.members
    return ran.code in CANNOT_RUN and not ran.timed_out and not wanted


def _failure(rules: Rules, ran: Ran, event: str) -> Verdict:
    against = _reason_to_stop(rules, ran)
    if against:
        return Verdict("stop", ran.code, event, against)
    if rules.retry_exit is None and not rules.retry_match:
        return Verdict("again", ran.code, event)
    if rules.retry_exit is not None and ran.code in rules.retry_exit.members:
        return Verdict("again", ran.code, event)
    if ran.found.intersection(rules.retry_match):
        return Verdict("again", ran.code, event)
    return Verdict("stop", ran.code, event, _unlisted(rules, ran))


def _reason_to_stop(rules: Rules, ran: Ran) -> str:
    if ran.code in rules.stop_exit.members:
        return f"{ran.code} is in --stop-exit {rules.stop_exit.text}"
    matched = next((one for one in rules.stop_match if one in ran.found), None)
    if matched is not None:
        return f"the output matched --stop-match {matched.pattern.decode('utf-8', 'replace')!r}"
    return ran.unread


def _unlisted(rules: Rules, ran: Ran) -> str:
    reasons: list[str] = []
    if rules.retry_exit is not None:
        reasons.append(f"{ran.code} is not in --retry-exit {rules.retry_exit.text}")
    if rules.retry_match:
        reasons.append("the output did not match --retry-match")
    return " and ".join(reasons)


def _unverified(verified: Ran) -> Verdict:
    event = f"exited 0 but its verification {what_happened(verified)}"
    if verified.code in CANNOT_RUN and not verified.timed_out:
        return Verdict("stop", verified.code, event, f"{verified.code} says that it cannot be run")
    return Verdict("again", verified.code, event)


def _until_fails(rules: Rules, ran: Ran, event: str) -> Verdict:
    """With --until-fails a failure is what is looked for, and an exit of 0 is worth another attempt."""
    if not ran.code:
        if ran.unread:
            return Verdict("stop", 1, event, ran.unread)
        return Verdict("again", 1, event)
    against = _reason_to_stop(rules, ran)
    return Verdict("stop", ran.code, event, against) if against else Verdict("ok", 0, event, success=True)
