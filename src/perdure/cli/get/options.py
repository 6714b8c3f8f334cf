"""The options of ``perdure get``, as one table."""

from __future__ import annotations

import click

from perdure.cli import values
from perdure.cli.get import reading
from perdure.cli.options import Reads
from perdure.cli.run_options import option
from perdure.cli.waits import read_wait
from perdure.errors import ConfigError

__all__ = ["OPTIONS", "with_hedge_values"]

LIMITS = "How often and how long"
ASKING = "What is asked"
KEEPING = "What is kept"
TELLING = "What is reported"

HEDGE = "1s"
"""What ``--hedge`` without a value means."""

_DURATION = "duration"
_FILE = Reads("file", values.read_name)

OPTIONS: list[click.Parameter] = [
    option(
        "--attempts",
        Reads("n", lambda text, field: (values.read_attempts(text, field),)),  # (None,): unlimited
        "How often each URL is asked, the first time included, without getting further [default: 4]; "
        '"unlimited" needs --deadline.',
        LIMITS,
        env=True,
    ),
    option(
        "--wait",
        Reads("spec", read_wait),
        "The wait before each retry, as in perdure run [default: exp:0.1s..5s*2,full; from 1s where a server "
        "says that there were too many requests].",
        LIMITS,
        env=True,
    ),
    option(
        "--timeout",
        Reads(_DURATION, values.read_some_time),
        "Cut an attempt that takes longer [default: none; --stall cuts what hangs].",
        LIMITS,
        env=True,
    ),
    option(
        "--stall",
        Reads(_DURATION, values.read_some_time),
        "Cut an attempt in which nothing came for so long.",
        LIMITS,
        default="30s",
        show_default=True,
    ),
    option(
        "--deadline",
        Reads(_DURATION, values.read_deadline),
        "The end of the whole: no attempt and no wait passes it, and an attempt is cut there.",
        LIMITS,
    ),
    option(
        "--max-retry-after",
        Reads(_DURATION, values.read_duration),
        "The longest wait that a server may ask for; beyond it the run ends with exit code 5 [default: 5m].",
        LIMITS,
    ),
    option(
        "--hedge",
        Reads(_DURATION, values.read_duration),
        f"If a URL has not begun to answer after so long ({HEDGE} where no duration is given), ask the next one "
        "too, and keep whichever is first.",
        LIMITS,
        metavar="[DURATION]",
    ),
    option(
        "--policy",
        Reads("name", values.read_name),
        "Start from the policy of this name in perdure.toml or [tool.perdure], or the preset interactive, "
        "background or patient.",
        LIMITS,
        env=True,
    ),
    option(
        "--config",
        _FILE,
        "The file with the policies, instead of the one found from here upwards.",
        LIMITS,
        env=True,
    ),
    option(
        "--method",
        Reads("method", reading.read_method),
        "GET, HEAD, PUT, DELETE or POST.",
        ASKING,
        default="GET",
        show_default=True,
    ),
    option(
        "--header",
        Reads("header", reading.read_header),
        "A header for every URL given, such as 'Accept: text/csv'. May be given several times. Another host, to "
        "which a redirect leads, does not get it.",
        ASKING,
        multiple=True,
    ),
    option(
        "--data",
        Reads("data", lambda text, _field: text),
        "The body of a PUT or POST; @file for that of a file, @- for standard input.",
        ASKING,
    ),
    option(
        "--idempotency-key",
        Reads("key", reading.read_key),
        "Sent as Idempotency-Key with every attempt; a POST needs one.",
        ASKING,
    ),
    option(
        "--output",
        _FILE,
        "Where it goes, or - for standard output [default: the last name in the URL; for other methods than GET "
        "standard output].",
        KEEPING,
    ),
    option(
        "--sha256", Reads("hex", reading.read_sha256), "The SHA-256 that the content has to have.", KEEPING
    ),
    option(
        "--checksum",
        Reads("algorithm:hex", reading.read_checksum),
        "The same for another algorithm, such as sha512:9b71....",
        KEEPING,
    ),
    option("--no-resume", None, "Drop what an earlier run left, and never ask for a range.", KEEPING),
    option("--quiet", None, "Say nothing on stderr.", TELLING, env=True),
    option("--no-progress", None, "Do not show how far it is.", TELLING, env=True),
    option("--json", None, "One JSON object on stdout at the end.", TELLING),
    option("--report", _FILE, 'Write that object to a file, or "-" for stdout.', TELLING),
    option(
        "--events",
        _FILE,
        'Write a JSON line for each thing that happens to a file, or "-" for stdout.',
        TELLING,
    ),
    option(
        "--explain",
        None,
        "Fetch nothing: print what would be done, the waits and the worst case.",
        TELLING,
    ),
    click.Argument(["urls"], nargs=-1, required=True, metavar="URL...", type=Reads("url", reading.read_url)),
]

for _one in OPTIONS:
    if _one.name == "output":
        _one.opts.insert(0, "-o")


def with_hedge_values(args: list[str]) -> list[str]:
    """Give a ``--hedge`` that is not followed by a duration its default, so that it does not eat a URL."""
    settled: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*settled, word, *rest]
        if word == "--hedge":
            value = rest.pop(0) if rest and _is_duration(rest[0]) else HEDGE
            word = f"--hedge={value}"
        settled.append(word)
    return settled


def _is_duration(text: str) -> bool:
    try:
        values.read_duration(text, "--hedge")
    except ConfigError:
        return False
    return True
