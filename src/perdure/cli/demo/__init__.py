"""`perdure demo`: servers that fail or become slow, and the same traffic through several ways to call."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from perdure.cli.demo.overload.report import Result as Overload
    from perdure.cli.demo.report import Result
    from perdure.cli.demo.terminal import Screen

_SHORTEST: Final = 6
_LONGEST: Final = 300
_INTERRUPTED: Final = 130


def _check_seconds(context: click.Context, option: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and _SHORTEST <= value <= _LONGEST):
        raise click.BadParameter(
            f"must be between {_SHORTEST} and {_LONGEST} seconds, got {value:g}", context, option
        )
    return value


def _check_out(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    # Before the run: nobody should watch it to the end to learn that the page has no place.
    if value is not None and value.is_dir():
        raise click.BadParameter(f"is a directory, a file is needed: {value}", context, option)
    if value is not None and not value.absolute().parent.is_dir():
        raise click.BadParameter(f"no such directory: {value.absolute().parent}", context, option)
    return value


@click.command()
@click.option("--seconds", type=float, default=20.0, show_default=True, callback=_check_seconds, metavar="N",
              help=f"How long the scene of faults takes, {_SHORTEST} to {_LONGEST}.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, other faults.")
@click.option("--out", type=click.Path(path_type=Path), callback=_check_out, metavar="PATH",
              help="Where the page goes; by default a new file in the temporary directory.")  # fmt: skip
@click.option(
    "--no-overload", is_flag=True, help="Leave out the overload scene, which takes about 25 s more."
)
@click.option("--no-page", is_flag=True, help="Write no page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def demo(
    context: click.Context,
    seconds: float,
    seed: int,
    out: Path | None,
    no_overload: bool,  # noqa: FBT001
    no_page: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Watch the same calls fail and succeed, several ways.

    First a server on 127.0.0.1 errs, slows down, restarts and goes away by a script, and gets the same
    traffic with no retry, with a naive retry loop, with @perdure.retry, and by a Dependency. Then one
    that works near its capacity becomes slow for a while: which way lets it recover? Ends with a table
    for each and a page with the curves.
    """
    if no_page and out is not None:
        raise click.UsageError("--out and --no-page exclude each other")
    from perdure.cli.demo.terminal import choose

    screen = choose(as_json=as_json)
    result = _play(context, screen, seed, seconds)
    overload, interrupted = None, result.interrupted
    if not no_overload and not interrupted:
        overload, interrupted = _play_overload(screen, seed)
    page = None if no_page else _write_page(result, overload, out)
    if as_json:
        _print_json(result, overload, page)
    elif page is not None:
        click.echo(f"Page with the curves: {page}")
    if interrupted:
        context.exit(_INTERRUPTED)


def _play(context: click.Context, screen: Screen, seed: int, seconds: float) -> Result:
    from perdure.cli.demo.arms import ARMS
    from perdure.cli.demo.process import ServerDied
    from perdure.cli.demo.run import run
    from perdure.cli.demo.script import Script

    script = Script.build(seed, seconds)
    screen.begin(script)
    try:
        result = run(script, ARMS, screen.display(script))
    except KeyboardInterrupt:  # before there was anything to measure
        context.exit(_INTERRUPTED)
    except ServerDied as error:
        raise click.ClickException(str(error)) from error
    screen.end(result)
    return result


def _play_overload(screen: Screen, seed: int) -> tuple[Overload | None, bool]:
    """Play the second scene: what came of it, and whether it was interrupted."""
    from perdure.cli.demo.overload.run import fitting_plan, run
    from perdure.cli.demo.process import ServerDied

    try:
        result = run(fitting_plan(seed), screen.overload_display)
    except KeyboardInterrupt:  # before there was anything to measure
        return None, True
    except ServerDied as error:
        raise click.ClickException(str(error)) from error
    screen.end_overload(result)
    return result, result.interrupted


def _print_json(result: Result, overload: Overload | None, page: Path | None) -> None:
    import json

    from perdure.cli.demo import report
    from perdure.cli.demo.overload.report import as_dict

    values = report.as_dict(result, None if page is None else str(page))
    values["overload"] = None if overload is None else as_dict(overload)
    click.echo(json.dumps(values, allow_nan=False))


def _write_page(result: Result, overload: Overload | None, out: Path | None) -> Path:
    from perdure.cli.demo.page import render

    text = render(result, overload)
    try:
        path = _new_file() if out is None else out.absolute()
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"the page could not be written: {error}") from error
    return path


def _new_file() -> Path:
    import os
    import tempfile

    handle, name = tempfile.mkstemp(prefix="perdure-demo-", suffix=".html")
    os.close(handle)
    return Path(name)
