"""``perdure get --explain``: the plan, before anything is asked."""

from __future__ import annotations

import click

from perdure.cli.explain import SCHEMA, delay_words, print_json
from perdure.cli.get.redact import shown
from perdure.durations import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.get.record import Request

__all__ = ["explain"]

_WARNINGS = {
    "unbounded": "neither --attempts nor --deadline bounds it: it ends only by success or by a signal",
    "no-budget": "many machines running this multiply the load of an outage by the number of attempts",
    "no-jitter": "runs that failed together come back together; end --wait with ,full",
    "no-deadline": "--stall cuts what hangs, and nothing bounds a download that is slow; set --deadline",
    "hint-ignored": "--max-retry-after is so short that servers are asked again before they want it",
    "same-timeout": "",
}
"""The library's warnings in the words of the command line; an empty one does not apply here."""


def explain(request: Request) -> int:
    """Print what a ``perdure get`` would do; 0."""
    plan = request.policy.explain().as_dict()
    plan["warnings"] = [
        {"code": one["code"], "message": message}
        for one in plan["warnings"]
        if (message := _WARNINGS.get(one["code"], one["message"]))
    ]
    if request.json:
        print_json({"schema": SCHEMA, "plan": plan, "get": _as_dict(request)})
    else:
        click.echo("\n".join(_lines(request, plan)))
    return 0


def _as_dict(request: Request) -> dict[str, object]:
    checksum = request.checksum
    return {
        "urls": [shown(url) for url in request.urls],
        "method": request.method,
        "output": request.output,
        "stall": request.stall,
        "hedge": request.hedge,
        "resume": request.resumes,
        "checksum": None if checksum is None else f"{checksum.algorithm}:{checksum.digest}",
    }


def _lines(request: Request, plan: dict[str, Any]) -> list[str]:
    policy, allowed = request.policy, request.allowed
    each = " for each URL" if len(request.urls) > 1 else ""
    rows = [
        *[("or" if number else "request", shown(url)) for number, url in enumerate(request.urls)],
        ("method", request.method),
        (
            "attempts",
            f"{'unlimited' if allowed is None else allowed}{each}, counted anew after each that got further",
        ),
        ("wait", f"{plan['backoff']['formula']}, jitter {plan['backoff']['jitter']}"),
        *[("", delay_words(one)) for one in plan["delays"]],
        (
            "server delay",
            f"kept to up to {human(policy.hint_cap)}; a longer one ends the run with exit code 5",
        ),
        ("timeout", "none" if policy.attempt_timeout is None else human(policy.attempt_timeout)),
        ("stall", f"cut when nothing came for {human(request.stall)}"),
        ("deadline", "none" if request.deadline is None else f"all is over after {human(request.deadline)}"),
        (
            "hedge",
            "none" if request.hedge is None else f"the next URL is asked too after {human(request.hedge)}",
        ),
        ("output", _output(request)),
        ("checksum", "none" if request.checksum is None else request.checksum.algorithm),
        ("retried", "connection failures, timeouts, bodies cut short; 408, 425, 429, 5xx and the like"),
        ("not retried", "404 and other refusals, certificates that are not valid"),
    ]
    lines = [f"{name:<14} {text}" for name, text in rows]
    if plan["warnings"]:
        lines += ["", "warnings", *[f"  {one['code']}: {one['message']}" for one in plan["warnings"]]]
    return lines


def _output(request: Request) -> str:
    if request.output == "-":
        return "standard output"
    resumed = "continued by range requests" if request.resumes else "begun again each time"
    return f"{request.output}, by way of {request.output}.part, which is {resumed}"
