"""The command ``perdure get``."""

from __future__ import annotations

import contextlib
import os
import time

import click

from perdure.cli.get.options import OPTIONS
from perdure.cli.options import SectionedCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.get.fetch import Fetch
    from perdure.cli.get.record import Ending, Request
    from perdure.cli.report import JsonFile
    from perdure.cli.screen import Screen

__all__ = ["execute", "get"]

HELP = """Fetch a URL until all of it is here; go on where it broke off.

\b
  perdure get https://example.com/tool.tar.gz
  perdure get --sha256 9f86d0... -o tool.tgz https://a.example/tool.tgz https://b.example/tool.tgz
  perdure get --attempts 8 --deadline 10m --stall 20s -o - https://example.com/big.csv | wc -l
  perdure get --method PUT --data @report.json https://example.com/reports/7

The content is written to FILE.part beside the target, and FILE changes in one step when all of it is there. What
broke off is continued by a range request, also by a later run, if the server proves that it is still the same;
else it starts again. Several URLs are mirrors: each is asked in order, at once, where the one before failed.

Retried are connection failures, timeouts, bodies cut short, 408, 425, 429 and 5xx; not 404 and the like. An
attempt that brought the download forward starts the counting of --attempts anew. A server's Retry-After is kept
to, up to --max-retry-after. POST needs --idempotency-key.

Exit codes: 0 it is there; 1 wrong checksum; 2 wrong usage; 3 another process is writing the same file; 4 not worth
another attempt; 5 given up, worth another run later; 124 timed out or out of time; 125 trouble on this side;
128 + n signal n (130: Ctrl-C; the part is kept).
"""


class _Get(SectionedCommand):
    """The command; ``--hedge`` may stand without a value, also right before a URL."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, which would take a URL for the value."""
        from perdure.cli.get.options import with_hedge_values

        return super().parse_args(ctx, with_hedge_values(args))


def _get(**given: Any) -> int:
    from perdure.cli.get.settle import settle

    request = settle(given)
    if given["explain"]:
        from perdure.cli.get.explain import explain

        return explain(request)
    try:
        return execute(request)
    except BrokenPipeError:  # click would end with 1
        from perdure.cli.app import without_reader

        return without_reader()


get = _Get("get", help=HELP, params=OPTIONS, callback=_get)


def execute(request: Request) -> int:
    """Carry a request out and return the exit code. For the main thread of a process of its own.

    Raises OSError where the target, a report or a log cannot be written.
    """
    from perdure.cli.report import JsonFile
    from perdure.cli.screen import Screen

    with contextlib.ExitStack() as stack:
        report = stack.enter_context(JsonFile(request.report)) if request.report else None
        log = stack.enter_context(JsonFile(request.events)) if request.events else None
        screen = Screen(quiet=request.quiet, live=request.progress)
        return _fetched(request, screen, report, log)


def _fetched(request: Request, screen: Screen, report: JsonFile | None, log: JsonFile | None) -> int:
    from perdure.cli.get.exits import REFUSED
    from perdure.cli.get.fetch import Fetch
    from perdure.cli.get.part import Busy, open_sink
    from perdure.cli.get.progress import Progress
    from perdure.cli.get.record import TO_STDOUT
    from perdure.cli.get.wire import Clients

    _need_httpx()
    began = time.time()
    try:
        sink = open_sink(request.output, resume=request.resumes, checksum=request.checksum)
    except Busy as busy:
        screen.line(f"perdure: not started: {busy}")
        return REFUSED
    clients = Clients(request.stall)
    try:
        mixed = request.output == TO_STDOUT and os.isatty(1)  # the content itself is on the terminal
        progress = Progress(screen, sink.name, wanted=request.progress and not mixed)
        fetch = Fetch(request, sink, clients, screen, progress, log)
        ending = fetch.run()
    finally:
        sink.leave()
        clients.close()
    _report(request, fetch, ending, began, report)
    return ending.code


def _need_httpx() -> None:
    """Load it before anything is timed."""
    import importlib

    try:
        importlib.import_module("httpx")
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        raise click.ClickException('get needs httpx; install it with: pip install "perdure[get]"') from None


def _report(request: Request, fetch: Fetch, ending: Ending, began: float, report: JsonFile | None) -> None:
    if report is None and not request.json:
        return
    from perdure.cli.get.report import as_report
    from perdure.cli.report import JsonFile

    value = as_report(request, ending, fetch.attempts, began=began, made=fetch.made)
    if report is not None:
        report.write(value)
    if request.json:
        with JsonFile("-") as stdout:
            stdout.write(value)
