"""The run told to programs.

One JSON object at the end, one JSON line per event as it happens, the evidence file for the command itself.

Schemas are named and versioned (``perdure.run/1``); fields may be added, and are not renamed or removed.
"""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self, TypeAlias

    from perdure.cli.get.record import Ending as GetEnding
    from perdure.cli.record import Attempt, Ending, Request
    from perdure.cli.rules import Verdict

    Ended: TypeAlias = Ending | GetEnding

__all__ = ["Evidence", "JsonFile", "as_report", "attempt_fields", "ending_fields", "rounded"]

RUN_SCHEMA = "perdure.run/1"
EVENTS_SCHEMA = "perdure.events/1"
EVIDENCE_SCHEMA = "perdure.evidence/1"
TOLD = 10
"""The evidence is about so many attempts at most, the last ones."""

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def as_report(
    request: Request, ending: Ending, attempts: list[Attempt], *, began: float, hooks: list[dict[str, object]]
) -> dict[str, object]:
    """The whole run as one object ready for JSON. Times are seconds; ``started_at`` counts from 1970.

    ``attempts`` are the last ones, at most ``loop.KEPT``; ``attempts_made`` counts them all.
    """
    policy = request.policy
    return {
        "schema": RUN_SCHEMA,
        "command": list(request.command),
        **ending_fields(ending, began),
        "idempotency_key": request.idempotency_key,
        "policy": {
            "attempts": policy.attempts,
            "backoff": repr(policy.backoff),
            "deadline": policy.deadline,
            "attempt_timeout": policy.attempt_timeout,
        },
        "attempts_made": ending.attempts,
        "attempts": [attempt_fields(one) for one in attempts],
        "failed_hooks": hooks,
    }


def ending_fields(ending: Ended, began: float) -> dict[str, object]:
    """How a run of any command ended, for its report."""
    return {
        "ok": ending.ok,
        "exit": ending.code,
        "stop": ending.stop,
        "why": ending.why or None,
        "signal": ending.signal,
        "retry_after": rounded(ending.retry_after),
        "started_at": began,
        "elapsed": rounded(ending.elapsed),
    }


def attempt_fields(attempt: Attempt) -> dict[str, object]:
    """One attempt as an object; ``delay`` is the wait after it, None where no other followed."""
    ran, verified = attempt.ran, attempt.verified
    return {
        "attempt": attempt.number,
        "exit": ran.code,
        "signal": ran.signal,
        "timed_out": ran.timed_out,
        "verify_exit": None if verified is None else verified.code,
        "started": rounded(attempt.started),
        "duration": rounded(attempt.duration),
        "result": _result(attempt.verdict),
        "reason": attempt.verdict.event,
        "why": attempt.verdict.why or None,
        "delay": rounded(attempt.delay),
        "left_running": attempt.left_running,
        "tail": ran.tail,
    }


def _result(verdict: Verdict) -> str:
    if verdict.kind == "again":
        return "ok so far" if verdict.success else "failed"
    return "ok" if verdict.kind == "ok" else "failed for good"


class JsonFile:
    """A place for JSON: a file, or stdout for "-".

    It is opened at once, so that a bad path shows before anything runs: the constructor raises OSError. What
    fails later is ignored, for the run matters more. One thread uses it.
    """

    def __init__(self, path: str) -> None:
        if path == "-":
            self._fd = os.dup(1)
        else:
            self._fd = os.open(path, NEW_FILE, 0o666)

    def write(self, value: dict[str, object]) -> None:
        """Add one object on a line of its own."""
        view = memoryview(as_line(value))
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._fd, view) :]

    def event(self, name: str, **fields: object) -> None:
        """Add an event that happens now."""
        self.write({"schema": EVENTS_SCHEMA, "name": name, "at": round(time.time(), 6), **fields})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)


def as_line(value: dict[str, object]) -> bytes:
    """JSON on one line, in ASCII: arguments and paths need not be valid Unicode."""
    import json

    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


class Evidence:
    """The file behind PERDURE_EVIDENCE: what earlier attempts did.

    ``path`` is None where it cannot be written. One thread uses it.
    """

    def __init__(self) -> None:
        self.path: str | None = None
        self._folder = ""

    def write(self, attempts: list[Attempt]) -> str | None:
        """Put the file in place for the next attempt; returns its path."""
        try:
            self._folder = self._folder or _private_folder()
            path = os.path.join(self._folder, "evidence.json")  # noqa: PTH118 - pathlib would cost its import
            fd = os.open(path, NEW_FILE, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(_evidence(attempts))
        except OSError:
            path = None
        self.path = path
        return path

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            if self._folder:
                os.unlink(os.path.join(self._folder, "evidence.json"))  # noqa: PTH108, PTH118
                os.rmdir(self._folder)  # noqa: PTH106
            self._folder = ""


def _evidence(attempts: list[Attempt]) -> bytes:
    if not attempts:  # as_line would import json, which a run that succeeds at once never needs
        return b'{"schema":"%b","attempts":[]}\n' % EVIDENCE_SCHEMA.encode("ascii")
    return as_line({"schema": EVIDENCE_SCHEMA, "attempts": [attempt_fields(one) for one in attempts[-TOLD:]]})


def _private_folder() -> str:
    """A folder that only this user can enter; tempfile would do it too, after an import of its own size."""
    base = os.environ.get("TMPDIR") or os.environ.get("TEMP") or os.sep + "tmp"
    path = os.path.join(base, f"perdure-{os.urandom(8).hex()}")  # noqa: PTH118
    os.mkdir(path, 0o700)  # noqa: PTH102
    return path


def rounded(seconds: float | None) -> float | None:
    """Give a time as reports have it, to the microsecond."""
    return None if seconds is None else round(seconds, 6)
