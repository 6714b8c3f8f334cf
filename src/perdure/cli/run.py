"""``perdure run``: run a command until it succeeds, or until there is no point."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from perdure.cli.options import SectionedCommand
from perdure.cli.run_options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.child.signals import Signals
    from perdure.cli.child.windows import WindowsLauncher, WindowsSignals
    from perdure.cli.launch import Launcher
    from perdure.cli.record import Ending, Request
    from perdure.cli.screen import Screen

__all__ = ["execute", "run"]

HELP = """Run COMMAND, and run it again while that is worth it.

\b
  perdure run -- curl -fsS https://example.com/health
  perdure run --attempts 5 --wait exp:0.5s..30s,full --timeout 10s -- ./sync.sh
  perdure run --deadline 2m --retry-exit 75 --map-exit exhausted=75 -- sendmail -q
  perdure run --breaker mirror --budget mirror --lock sync -- ./sync.sh

By default every exit code but 0 is retried, except 126 and 127 (the command cannot be run): at most 4
attempts, with waits of up to 0.1 s, 0.2 s, 0.4 s (exponential, full jitter). An attempt cut by --timeout
counts as exit code 124, a death by signal n as 128 + n. Durations: 250ms, 2s, 1m30s; a bare number means
seconds.

--breaker, --budget and --lock share their state with all runs on this machine that give the same name;
`perdure state` shows it.

Exit codes: the command's own; 75 refused by --breaker or --lock, and not started; 124 timed out or out of
time; 125 perdure itself failed; 126, 127 the command cannot be run; 128 + n signal n; 2 wrong usage.

Variables stand for options that are not given: PERDURE_ATTEMPTS, _WAIT, _TIMEOUT, _DEADLINE, _GRACE,
_POLICY, _CONFIG, _RETRY_EXIT, _STOP_EXIT, _RETRY_MATCH, _STOP_MATCH, _MAP_EXIT, _STDIN_LIMIT, _QUIET,
_NO_PROGRESS, _STATE; what --policy says comes last. The command sees PERDURE_ATTEMPT, _MAX_ATTEMPTS, _DEADLINE
(seconds since 1970; a perdure run inside keeps to it), _IDEMPOTENCY_KEY (the same for every attempt),
_LAST_EXIT and _EVIDENCE (a JSON file about the attempts before).
"""


def _run(**given: Any) -> int:
    from perdure.cli.settle import settle

    request = settle(given)
    if given["explain"]:
        from perdure.cli.explain import explain_run

        return explain_run(request)
    return execute(request)


run = SectionedCommand(
    "run",
    help=HELP,
    params=OPTIONS,
    callback=_run,
    context_settings={"allow_interspersed_args": False},
)


def execute(request: Request) -> int:
    """Carry a request out and return the exit code. For the main thread of a process of its own.

    Raises OSError where a report cannot be opened or output not be kept, Stuck where a process survives KILL,
    Trouble where a lock cannot be looked at.
    """
    from perdure.cli.loop import Loop
    from perdure.cli.report import JsonFile, as_line, as_report
    from perdure.cli.screen import Screen

    began = time.time()
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(JsonFile(request.report)) if request.report else None
        log = stack.enter_context(JsonFile(request.events)) if request.events else None
        screen = Screen(quiet=request.quiet or request.json, live=request.progress)
        signals = _signals()
        stack.enter_context(signals)
        launcher = _launcher(request, signals, screen)
        stack.enter_context(launcher)
        shared = None
        if request.sharing is not None:
            from perdure.cli.shared import Shared

            shared = stack.enter_context(Shared(request, request.sharing, screen, log))
        loop = Loop(request, launcher, signals, screen, log, shared)
        ending = loop.run()
        if report is not None or request.json:
            value = as_report(request, ending, loop.attempts, began=began, hooks=loop.failed_hooks)
            if report is not None:
                report.write(value)
            if request.json:
                screen.always(as_line(value).decode("ascii").rstrip())
    if signals.from_terminal:
        _end_as_the_key_meant(ending)
    elif ending.signal == signal.SIGINT and os.isatty(
        0
    ):  # Ctrl-C during a wait: the shell's loop should end too
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return ending.code


def _signals() -> Signals | WindowsSignals:
    if sys.platform == "win32":
        from perdure.cli.child.windows import WindowsSignals

        return WindowsSignals()
    from perdure.cli.child.signals import Signals

    return Signals()


def _launcher(request: Request, signals: Any, screen: Screen) -> Launcher | WindowsLauncher:
    if sys.platform == "win32":
        from perdure.cli.child.windows import WindowsLauncher

        return WindowsLauncher(request, signals, screen)
    from perdure.cli.launch import Launcher

    return Launcher(request, signals, screen)


def _end_as_the_key_meant(ending: Ending) -> None:
    """Ctrl-C went to the command alone, which had the terminal; let the rest of the job have it too.

    So a script that runs perdure stops where it would have stopped without perdure.
    """
    signum = ending.signal or signal.SIGINT
    signal.signal(signum, signal.SIG_DFL)
    os.killpg(os.getpgrp(), signum)
