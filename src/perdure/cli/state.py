"""``perdure state``: what the runs on this machine share, and a way to forget it."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.exits import NOT_DONE
from perdure.cli.options import Reads
from perdure.cli.shared import breaker, budget, describe, lock
from perdure.cli.shared.store import Store, default_path
from perdure.cli.values import read_name
from perdure.cli.wording import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.cli.shared.store import Transaction

__all__ = ["state"]

SCHEMA = "perdure.state/1"

HELP = """Show the breakers, budgets and locks that the runs on this machine share.

\b
  perdure state                 all of them
  perdure state --json          for programs
  perdure state reset NAME      forget the breaker and the budget of this name, and a lock nobody holds
"""


def _file(variable: str | None) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The option ``--state``; the subcommand's own goes before that of the command, and before the variable."""
    return click.option(
        "--state",
        "file",
        metavar="FILE",
        envvar=variable,
        type=Reads("file", read_name),
        help="The file with the state [default: in the user's state folder].",
    )


@click.group("state", help=HELP, invoke_without_command=True)
@_file("PERDURE_STATE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.pass_context
def state(ctx: click.Context, file: str | None, as_json: bool) -> int:  # noqa: FBT001 - click calls it
    """Show the state, unless a subcommand follows."""
    ctx.obj = file
    if ctx.invoked_subcommand is not None:
        return 0
    path = _path(file)
    found = _found(path)
    if as_json:
        import json

        click.echo(json.dumps({"schema": SCHEMA, "file": str(path.absolute()), **found}, indent=2))
    else:
        click.echo("\n".join(_lines(found)) or f"nothing is shared yet ({path})")
    return 0


@state.command("reset", help="Forget the breaker and the budget of a name; and a lock, if nobody holds it.")
@click.argument("name", type=Reads("name", read_name))
@_file(None)
@click.option("--force", is_flag=True, help="Take a lock away even from a run that holds it.")
@click.pass_context
def reset(ctx: click.Context, name: str, file: str | None, force: bool) -> int:  # noqa: FBT001 - click calls it
    """Forget a name."""
    path = _path(ctx.obj if file is None else file)
    if not path.exists():
        click.echo(f"nothing is shared yet ({path})", err=True)
        return NOT_DONE
    with Store(path) as store, store.changing() as tx:
        held = lock.who_holds(tx, name)
        if held is not None and not force:
            click.echo(f"lock {name!r} is held by {describe(held)}; --force takes it away", err=True)
            return NOT_DONE
        dropped = [kind for kind in (breaker.KIND, budget.KIND, lock.KIND) if tx.drop(kind, name)]
    click.echo(
        f"forgot {' and '.join(dropped)} {name!r}" if dropped else f"no name {name!r} is known",
        err=not dropped,
    )
    return 0 if dropped else NOT_DONE


def _path(file: str | None) -> Path:
    return default_path() if file is None else Path(file)


def _found(path: Path) -> dict[str, list[dict[str, Any]]]:
    if not path.exists():
        return {"breakers": [], "budgets": [], "locks": []}
    with Store(path) as store, store.looking() as tx:
        return {
            "breakers": [one for name in tx.names(breaker.KIND) for one in _breaker(tx, name)],
            "budgets": [one for name in tx.names(budget.KIND) for one in _budget(tx, name)],
            "locks": [one for name in tx.names(lock.KIND) for one in _lock(tx, name)],
        }


def _breaker(tx: Transaction, name: str) -> list[dict[str, Any]]:
    one = breaker.load(tx, name)
    if one is None:
        return []
    return [
        {
            "name": name,
            "state": one.machine.state(tx.now),
            "retry_after": round(one.machine.retry_after(tx.now), 3),
            "probes": [probe.get("pid") for probe in one.probes.values()],
            "failures": one.rule.failures,
            "cooldown": one.rule.cooldown,
        }
    ]


def _budget(tx: Transaction, name: str) -> list[dict[str, Any]]:
    level = budget.level(tx.get(budget.KIND, name))
    return [] if level is None else [{"name": name, "tokens": round(level[0], 6), "cap": level[1]}]


def _lock(tx: Transaction, name: str) -> list[dict[str, Any]]:
    held = lock.who_holds(tx, name, write=False)
    if held is None:
        return []
    fields = {"name": name, "pid": held.pid, "program": held.program, "since": held.since}
    return [{**fields, "held_for": round(tx.now - held.since, 3), "alive": held.alive}]


def _lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = [("breaker", one["name"], _breaker_words(one)) for one in found["breakers"]]
    rows += [
        ("budget", one["name"], f"{one['tokens']:.1f} retries left of {one['cap']:g}")
        for one in found["budgets"]
    ]
    rows += [("lock", one["name"], _lock_words(one)) for one in found["locks"]]
    shown = [(kind, name if name.isprintable() else repr(name), words) for kind, name, words in rows]
    width = max((len(name) for _, name, _ in shown), default=0)
    return [f"{kind:<8} {name:<{width}}  {words}" for kind, name, words in shown]


def _breaker_words(one: dict[str, Any]) -> str:
    words = str(one["state"]).replace("_", " ")
    if one["state"] == "open":
        return f"{words}, ask again in {human(one['retry_after'])}"
    out = ", ".join(str(pid) for pid in one["probes"])
    return f"{words}, process {out} is finding out" if out else words


def _lock_words(one: dict[str, Any]) -> str:
    who = "somebody unknown" if one["pid"] is None else f"process {one['pid']} ({one['program']!r})"
    unsure = "" if one["alive"] else ", if it still lives"
    return f"held by {who} for {human(max(0.0, one['held_for']))}{unsure}"
