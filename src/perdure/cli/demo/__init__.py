"""`perdure demo`: a server that fails by a script, and the same traffic through three ways to call it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from perdure.cli.demo.report import Result

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
              help=f"How long traffic is sent, {_SHORTEST} to {_LONGEST}.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, other faults.")
@click.option("--out", type=click.Path(path_type=Path), callback=_check_out, metavar="PATH",
              help="Where the page goes; by default a new file in the temporary directory.")  # fmt: skip
@click.option("--no-page", is_flag=True, help="Write no page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def demo(
    context: click.Context,
    seconds: float,
    seed: int,
    out: Path | None,
    no_page: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Watch the same calls fail and succeed, three ways.

    Starts an HTTP server on 127.0.0.1 that errs, slows down, restarts and goes away by a script, and
    sends it the same traffic with no retry, with a naive retry loop, and with @perdure.retry. Ends
    with a table and a page with the curves. It shows faults that pass; it does not show overload.
    """
    if no_page and out is not None:
        raise click.UsageError("--out and --no-page exclude each other")
    result = _play(context, seed, seconds, as_json=as_json)
    page = None if no_page else _write_page(result, out)
    if as_json:
        import json

        from perdure.cli.demo.report import as_dict

        click.echo(json.dumps(as_dict(result, None if page is None else str(page)), allow_nan=False))
    elif page is not None:
        click.echo(f"Page with the curves: {page}")
    if result.interrupted:
        context.exit(_INTERRUPTED)


def _play(context: click.Context, seed: int, seconds: float, *, as_json: bool) -> Result:
    from perdure.cli.demo.arms import ARMS
    from perdure.cli.demo.process import ServerDied
    from perdure.cli.demo.run import run
    from perdure.cli.demo.script import Script
    from perdure.cli.demo.terminal import choose

    screen = choose(as_json=as_json)
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


def _write_page(result: Result, out: Path | None) -> Path:
    from perdure.cli.demo.page import render

    text = render(result)
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
