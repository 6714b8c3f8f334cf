"""``perdure explain`` and ``perdure run --explain``: the plan, before anything is done."""

from __future__ import annotations

import click

from perdure.cli.child.replay import size_words
from perdure.cli.options import Bad, Reads
from perdure.durations import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.record import Request, Sharing
    from perdure.dependency import Dependency
    from perdure.policies import Retry

__all__ = ["SCHEMA", "delay_words", "explain", "explain_run", "print_json"]

SCHEMA = "perdure.explain/1"

_WARNINGS = {
    "unbounded": "neither --attempts nor --deadline bounds it: it ends only by success or by a signal",
    "no-budget": "many machines running this multiply the load of an outage by the number of attempts",
    "no-jitter": "runs that failed together come back together; end --wait with ,full",
    "no-deadline": "a command that hangs is never cut, and nothing bounds the whole; set --timeout",
    "same-timeout": "",
    "hint-ignored": "",
}
"""The library's warnings in the words of the command line; an empty one does not apply here."""

HELP = """Say what policies and dependencies would do: waits, worst case, load in an outage, and warnings.

\b
  perdure explain                          what perdure.toml or [tool.perdure] holds, else the presets
  perdure explain perdure.toml --policy payments
  perdure explain --policy patient         a preset

For a command line, use `perdure run --explain ...`.
"""


@click.command("explain", help=HELP)
@click.argument("file", required=False)
@click.option(
    "--policy", metavar="NAME", type=Reads("name", lambda text, _field: text), help="Only this policy."
)
@click.option("--config", metavar="FILE", help="The same as FILE, as in perdure run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def explain(file: str | None, policy: str | None, config: str | None, as_json: bool) -> int:  # noqa: FBT001 - click calls it
    """Explain the policies of a file, or a preset."""
    if file is not None and config is not None:
        raise Bad(f"--config must be left out where FILE is given, got {config!r}")
    chosen = _chosen(file or config, policy)
    plans = {name: one.explain() for name, one in chosen.items()}
    if as_json:
        print_json({"schema": SCHEMA, "policies": {name: plan.as_dict() for name, plan in plans.items()}})
    else:
        click.echo("\n\n".join(f"[{name}]\n{plan}" for name, plan in plans.items()))
    return 0


def explain_run(request: Request) -> int:
    """Print what a ``perdure run`` would do; 0."""
    plan = request.policy.explain().as_dict()
    plan["warnings"] = _warnings(plan, request)
    if request.json:
        print_json(
            {"schema": SCHEMA, "command": list(request.command), "plan": plan, "run": _as_dict(request)}
        )
    else:
        click.echo("\n".join(_lines(request, plan)))
    return 0


def _chosen(file: str | None, name: str | None) -> dict[str, Retry | Dependency]:
    from perdure.cli.policies import dependencies, find_policy, load, presets

    found: dict[str, Retry | Dependency] = {**load(file), **dependencies(file)}
    if name is not None:
        return {name: found[name] if name in found else find_policy(name, file)}
    if not found and file is not None:
        raise Bad(f"{file} holds no policy; a policy is a table [policies.NAME] or [dependencies.NAME]")
    return found or {**presets()}


def _warnings(plan: dict[str, Any], request: Request) -> list[dict[str, str]]:
    """The warnings that hold for a command, in its own words."""
    found: list[dict[str, str]] = []
    for warning in plan["warnings"]:
        code = warning["code"]
        message = _WARNINGS.get(code, warning["message"])
        if code == "no-deadline" and request.policy.attempt_timeout is not None:
            continue
        if code == "no-budget" and request.sharing is not None and request.sharing.budget is not None:
            continue
        if message:
            found.append({"code": code, "message": message})
    return found


def _as_dict(request: Request) -> dict[str, object]:
    """What the options besides the policy say."""
    rules = request.rules
    return {
        "grace": request.grace,
        "retry_exit": None if rules.retry_exit is None else sorted(rules.retry_exit.members),
        "stop_exit": sorted(rules.stop_exit.members),
        "retry_match": [_pattern(one) for one in rules.retry_match],
        "stop_match": [_pattern(one) for one in rules.stop_match],
        "verify": request.verify,
        "until_fails": rules.until_fails,
        "consecutive": rules.consecutive,
        "on_retry": request.on_retry,
        "on_giveup": request.on_giveup,
        "hold": request.hold,
        "stdin": request.stdin,
        "stdin_limit": request.stdin_limit,
        "map_exit": dict(request.exit_map),
        "shared": None if request.sharing is None else _shared(request.sharing),
        "worst_case_elapsed": _worst(request),
    }


def _lines(request: Request, plan: dict[str, Any]) -> list[str]:
    policy, attempts = request.policy, request.allowed
    rows = [
        ("command", " ".join(_quoted(word) for word in request.command)),
        ("attempts", "unlimited" if attempts is None else str(attempts)),
        ("wait", f"{plan['backoff']['formula']}, jitter {plan['backoff']['jitter']}"),
        *[("", delay_words(one)) for one in plan["delays"]],
        ("timeout", _timeout(request)),
        ("deadline", "none" if policy.deadline is None else _deadline(policy.deadline)),
        ("success", _success(request)),
        *_failures(request),
        *_shared_lines(request.sharing),
        ("stdin", _stdin(request)),
        ("stdout", "held until success" if request.hold else "passed on as it comes"),
        *[
            (name, text)
            for name, text in (("on retry", request.on_retry), ("on giving up", request.on_giveup))
            if text
        ],
        ("exit code", _exit_codes(request)),
        ("worst case", _worst_words(request)),
        ("amplification", f"{'without bound' if attempts is None else attempts} x the load in an outage"),
    ]
    lines = [f"{name:<14} {text}" for name, text in rows]
    if plan["warnings"]:
        lines += ["", "warnings", *[f"  {one['code']}: {one['message']}" for one in plan["warnings"]]]
    return lines


def delay_words(one: dict[str, float]) -> str:
    """The wait before an attempt, from the ``delays`` of a plan."""
    expected, median, worst = (human(one[name]) for name in ("expected", "median", "worst"))
    return f"before attempt {one['attempt']:.0f}: {expected} expected, {median} median, {worst} at most"


def _timeout(request: Request) -> str:
    timeout = request.policy.attempt_timeout
    if timeout is None:
        return "none"
    grace = human(request.grace)
    return f"{human(timeout)} for each attempt, then TERM to all its processes, and KILL after {grace}"


def _deadline(deadline: float) -> str:
    return (
        "for ever" if deadline == float("inf") else f"no attempt and no wait begins after {human(deadline)}"
    )


def _success(request: Request) -> str:
    rules = request.rules
    words = "any exit code but 0" if rules.until_fails else "exit code 0"
    if request.verify is not None:
        words += f", and `{request.verify}` exits 0"
    return words + (f", {rules.consecutive} times in a row" if rules.consecutive > 1 else "")


def _failures(request: Request) -> list[tuple[str, str]]:
    rules = request.rules
    listed = [] if rules.retry_exit is None else [f"exit codes {rules.retry_exit.text}"]
    listed += [f"output that matches {_pattern(one)!r}" for one in rules.retry_match]
    rest = (
        "exit code 0"
        if rules.until_fails
        else "any other exit code (124: cut by the timeout, 128 + n: signal n)"
    )
    never = ["exit codes 126, 127"]
    if rules.stop_exit.text:
        never.append(f"exit codes {rules.stop_exit.text}")
    never += [f"output that matches {_pattern(one)!r}" for one in rules.stop_match]
    return [("retried", ", or ".join(listed) or rest), ("not retried", ", ".join(never))]


def _shared(sharing: Sharing) -> dict[str, object]:
    wait = sharing.lock_wait
    return {
        "state": sharing.state,
        "breaker": sharing.breaker,
        "breaker_failures": sharing.failures,
        "breaker_cooldown": sharing.cooldown,
        "budget": sharing.budget,
        "lock": sharing.lock,
        "lock_wait": "forever" if wait == float("inf") else wait,
    }


def _shared_lines(sharing: Sharing | None) -> list[tuple[str, str]]:
    if sharing is None:
        return []
    lines: list[tuple[str, str]] = []
    if sharing.lock is not None:
        wait = (
            f"waits {human(sharing.lock_wait)} for it"
            if sharing.lock_wait
            else "refuses to start if it is held"
        )
        lines.append(("lock", f"{sharing.lock!r}, {wait}"))
    if sharing.breaker is not None:
        rule = f"opens after {sharing.failures} failures in a row, for {human(sharing.cooldown)} at first"
        lines.append(("breaker", f"{sharing.breaker!r}, {rule}"))
    if sharing.budget is not None:
        lines.append(
            ("budget", f"{sharing.budget!r}, of which each retry takes 1 and each success gives 0.1")
        )
    return lines


def _stdin(request: Request) -> str:
    if not request.stdin:
        return "empty"
    limit = f"a pipe is read once and up to {size_words(request.stdin_limit)} kept"
    return f"the same for every attempt: a file is read again, {limit}"


def _exit_codes(request: Request) -> str:
    mapped = [f"{code} if {name}" for name, code in request.exit_map.items() if code is not None]
    rest = "the command's own; 124 if timed out or out of time"
    sharing = request.sharing
    if sharing is not None and (sharing.breaker or sharing.lock) and "refused" not in request.exit_map:
        rest += "; 75 if refused and not started"
    return f"{', '.join(mapped)}, else {rest}" if mapped else rest


def _worst(request: Request) -> float | None:
    """Seconds at most, with every attempt cut at its timeout and killed after the grace; None: no bound."""
    policy, attempts = request.policy, request.allowed
    plan = policy.explain().as_dict()["worst_case_elapsed"]
    if plan is None or policy.attempt_timeout is None:
        return None
    last_begins = plan - policy.attempt_timeout
    if attempts is not None:
        last_begins += (attempts - 1) * request.grace
    if policy.deadline is not None:
        last_begins = min(last_begins, policy.deadline)
    return float(last_begins + policy.attempt_timeout + request.grace)


def _worst_words(request: Request) -> str:
    worst = _worst(request)
    if worst is not None:
        return human(worst)
    waits = request.policy.explain().as_dict()["worst_case_elapsed"]
    if waits is None:
        return "unbounded"
    return f"{human(waits)} and the time the attempts take, which nothing bounds (no --timeout)"


def _pattern(pattern: Any) -> str:
    return str(pattern.pattern.decode("utf-8", "replace"))


def _quoted(word: str) -> str:
    from shlex import quote

    return quote(word)


def print_json(value: dict[str, Any]) -> None:
    """Print an object for programs."""
    import json

    click.echo(json.dumps(value, indent=2))
