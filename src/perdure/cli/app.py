"""The frame of the command line: subcommands that are loaded when used, and errors of one line."""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from perdure.cli.exits import FAILED, USAGE
from perdure.cli.options import Bad, written_as
from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Lazy", "cli", "invoke", "without_reader"]

COMMANDS = {
    "run": ("perdure.cli.run", "run", "Run a command, and run it again while that is worth it."),
    "get": ("perdure.cli.get", "get", "Fetch a URL, and go on where it broke off; several are mirrors."),
    "state": ("perdure.cli.state", "state", "Show what runs share: breakers, budgets of retries, locks."),
    "explain": ("perdure.cli.explain", "explain", "Say what a policy would do before it does it."),
    "demo": (
        "perdure.cli.demo",
        "demo",
        "Watch real calls survive a failing server, beside no retry and a naive loop.",
    ),
}
"""Name: module, attribute, and the line for the overview (so that the overview loads none of them)."""

BROKEN_PIPE = 128 + 13
INTERRUPTED = 130


class Lazy(click.Group):
    """A group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a subcommand; None where the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the names that are close to one that is unknown."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise Bad(f"no such command {args[0]!r}{_close_to(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The overview, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def _close_to(name: str) -> str:
    """What may have been meant, in the words that click has for options."""
    from difflib import get_close_matches

    close = [repr(one) for one in sorted(get_close_matches(name, COMMANDS))]
    if not close:
        return ""
    return f"; did you mean {close[0]}?" if len(close) == 1 else f"; did you mean one of: {', '.join(close)}?"


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("perdure")
        except PackageNotFoundError:
            number = "(version unknown: not installed as a package)"
        click.echo(f"perdure {number}")
        ctx.exit()


cli = Lazy(
    "perdure",
    help="Keep calls to things that fail alive, without making their failures worse.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_show_version,
            help="Show the version and exit.",
        )
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)


def invoke(arguments: Sequence[str] | None) -> int:
    """Run a command line; every way to fail becomes one line on stderr and an exit code."""
    args = None if arguments is None else list(arguments)
    try:
        result = cli.main(args=args, prog_name="perdure", standalone_mode=False)
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2; its message is the help
            return _complain(error.format_message(), USAGE)
        return _complain(f"{_path(error)}: {_words(error)}", USAGE)
    except ConfigError as error:
        return _complain(f"perdure: {error}", USAGE)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence
        return _failed(error)
    return result if isinstance(result, int) else 0


def _failed(error: Exception) -> int:
    """Perdure itself failed."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return without_reader()
    if os.environ.get("PERDURE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename is not None:
        return _complain(f"perdure: {error.filename}: {error.strerror}", FAILED)
    if isinstance(error, (OSError, click.ClickException)) or type(error).__module__.startswith("perdure."):
        return _complain(f"perdure: {error}", FAILED)
    return _complain(
        f"perdure: internal error, {type(error).__name__}: {error} (PERDURE_DEBUG=1 shows where)", FAILED
    )


def without_reader() -> int:
    """Nobody reads stdout: end as programs do there, without a second complaint when Python closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return BROKEN_PIPE


def _path(error: click.UsageError) -> str:
    return "perdure" if error.ctx is None else error.ctx.command_path


def _words(error: click.UsageError) -> str:
    """One line: ours as it is, click's without its full stop and with a small first letter."""
    if isinstance(error, click.exceptions.MissingParameter) and isinstance(error.param, click.Argument):
        name = error.param.human_readable_name
        example = " -- curl -fsS https://example.com" if _path(error).endswith(" run") else f" {name}"
        return f"{name} is missing, as in: {_path(error)}{example}"
    if (
        isinstance(error, click.BadParameter)
        and isinstance(error.param, click.Option)
        and error.param.is_flag
    ):
        name = written_as(error.param, error.ctx)
        return f"{name} must be true or false (1 or 0), got {os.environ.get(name)!r}"
    message = " ".join(error.format_message().split())
    if ". (Did" in message:  # more than one name is close
        message = message.replace(". (Did", ". Did").removesuffix(")")
    if getattr(error, "complete", False):
        message = error.message
    return (
        (message[:1].lower() + message[1:]).removesuffix(".").replace(". Did", "; did")
        if message[1:2].islower()
        else message
    )


def _complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        try:
            print(text, file=sys.stderr)
        except OSError:
            pass  # nobody to tell
    return code
