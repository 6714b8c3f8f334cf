"""The options of ``perdure run``, as one table."""

from __future__ import annotations

import click

from perdure.cli import values
from perdure.cli.options import Reads, Section
from perdure.cli.waits import read_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["OPTIONS", "option"]

LIMITS = "How often and how long"
JUDGING = "What counts as failure"
AROUND = "Around the attempts"
SHARING = "Shared with the other runs on this machine"
STREAMS = "Input and output"
TELLING = "What is reported"


def option(
    flag: str, kind: Reads | None, help_: str, section: str, *, env: bool = False, **more: Any
) -> Section:
    """Make an option: ``kind`` says what it takes (None: a flag), ``env`` whether a variable may give it too."""
    variable = "PERDURE_" + flag.removeprefix("--").replace("-", "_").upper() if env else None
    if kind is None:
        more["is_flag"] = True
    else:
        more.setdefault("metavar", kind.name.upper())
        more["type"] = kind
    return Section([flag], help=help_, section=section, envvar=variable, **more)


_DURATION = "duration"
_TEXT = Reads("command", lambda text, _field: text)
_NAME = Reads("name", values.read_name)

OPTIONS: list[click.Parameter] = [
    option(
        "--attempts",
        Reads("n", lambda text, field: (values.read_attempts(text, field),)),  # (None,): unlimited
        'Calls in all, the first included [default: 4]; "unlimited" needs --deadline.',
        LIMITS,
        env=True,
    ),
    option(
        "--wait",
        Reads("spec", read_wait),
        "The wait before each retry: const:2s, exp:0.5s..30s, exp:0.5s..30s*3,equal, linear:1s..30s, "
        "fib:1s..60s, list:1s,2s,5s; jitter full, equal, coherent, none, decorrelated or 10% [default: "
        "exp:0.1s..5s*2,full].",
        LIMITS,
        env=True,
    ),
    option(
        "--timeout",
        Reads(_DURATION, values.read_some_time),
        "Cut an attempt that takes longer: TERM to all its processes, KILL after --grace.",
        LIMITS,
        env=True,
    ),
    option(
        "--deadline",
        Reads(_DURATION, values.read_deadline),
        "Begin no attempt and no wait later than this. It never cuts an attempt (--timeout does), so the "
        "whole may take up to the deadline and one attempt. A wait that would pass it is not begun.",
        LIMITS,
    ),
    option(
        "--grace",
        Reads(_DURATION, values.read_duration),
        "Between TERM and KILL.",
        LIMITS,
        env=True,
        default="5s",
        show_default=True,
    ),
    option(
        "--policy",
        Reads("name", lambda text, _field: text),
        "Start from the policy of this name in perdure.toml or [tool.perdure], or the preset interactive, "
        "background or patient.",
        LIMITS,
        env=True,
    ),
    option(
        "--config",
        Reads("file", lambda text, _field: text),
        "The file with the policies, instead of the one found from here upwards.",
        LIMITS,
        env=True,
    ),
    option(
        "--retry-exit",
        Reads("codes", values.read_codes),
        "Retry only these exit codes, such as 1,75,100-120.",
        JUDGING,
        env=True,
    ),
    option(
        "--stop-exit",
        Reads("codes", values.read_codes),
        "Never retry these exit codes; goes before all others.",
        JUDGING,
        env=True,
    ),
    option(
        "--retry-match",
        Reads("regex", values.read_pattern),
        "Retry a failure only if its output (stdout or stderr) matches, or its code is in --retry-exit. "
        "May be given several times.",
        JUDGING,
        env=True,
        multiple=True,
    ),
    option(
        "--stop-match",
        Reads("regex", values.read_pattern),
        "Never retry a failure whose output matches. May be given several times.",
        JUDGING,
        env=True,
        multiple=True,
    ),
    option(
        "--verify",
        _TEXT,
        "A shell command that must exit 0 as well for an attempt to count as success; with --hold it reads "
        "the held output.",
        JUDGING,
    ),
    option("--until-fails", None, "Look for a failure: run again after each exit code of 0.", JUDGING),
    option(
        "--consecutive",
        Reads("n", values.read_count),
        "Succeed only after this many successes in a row.",
        JUDGING,
        default="1",
    ),
    option("--on-retry", _TEXT, "A shell command to run just before each retry.", AROUND),
    option("--on-giveup", _TEXT, "A shell command to run after giving up.", AROUND),
    option(
        "--idempotency-key",
        Reads("key", lambda text, _field: text),
        "The PERDURE_IDEMPOTENCY_KEY of every attempt [default: a fresh random one].",
        AROUND,
    ),
    option(
        "--map-exit",
        Reads("name=code", lambda text, field: (text, field)),
        "Another exit code for an ending: exhausted, deadline, timeout, stopped, unreplayable or refused; "
        "such as exhausted=75.",
        AROUND,
        env=True,
        multiple=True,
    ),
    option(
        "--breaker",
        _NAME,
        "Stop starting the command while it keeps failing, in whichever run: failures in a row open the breaker "
        "of this name, and after a cooldown one run at a time finds out whether it may close.",
        SHARING,
    ),
    option(
        "--breaker-failures",
        Reads("n", values.read_count),
        "So many failed attempts in a row open it [default: 5].",
        SHARING,
    ),
    option(
        "--breaker-cooldown",
        Reads(_DURATION, values.read_some_time),
        "How long it stays open; twice as long each time it opens again, up to five times [default: 1m].",
        SHARING,
    ),
    option(
        "--budget",
        _NAME,
        "Draw retries from the budget of this name: each success adds a tenth of a retry, up to 5.",
        SHARING,
    ),
    option("--lock", _NAME, "Run only while no other run has the lock of this name.", SHARING),
    option(
        "--lock-wait",
        Reads(_DURATION, values.read_duration_or_forever),
        'How long to wait for the lock, or "forever" [default: 0, refuse at once].',
        SHARING,
    ),
    option(
        "--state",
        Reads("file", values.read_name),
        "The file with the state, on a local disk [default: in the user's state folder].",
        SHARING,
        env=True,
    ),
    option("--no-stdin", None, "Give the command an empty stdin and leave perdure's own unread.", STREAMS),
    option(
        "--stdin-limit",
        Reads("size", values.read_size),
        "How much of a piped stdin to keep for the next attempts.",
        STREAMS,
        env=True,
        default="256MiB",
        show_default=True,
    ),
    option(
        "--hold",
        None,
        "Hold stdout back, and write only that of the attempt that succeeded.",
        STREAMS,
    ),
    option("--quiet", None, "Say nothing on stderr.", TELLING, env=True),
    option("--no-progress", None, "No status line on a terminal.", TELLING, env=True),
    option("--json", None, "One JSON object on stderr at the end, instead of sentences.", TELLING),
    option(
        "--report",
        Reads("file", lambda text, _field: text),
        'Write that object to a file, or "-" for stdout.',
        TELLING,
    ),
    option(
        "--events",
        Reads("file", lambda text, _field: text),
        'Write a JSON line for each thing that happens to a file, or "-" for stdout.',
        TELLING,
    ),
    option(
        "--explain",
        None,
        "Run nothing: print what would be done, the waits and the worst case.",
        TELLING,
    ),
    click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, required=True, metavar="COMMAND"),
]
