"""From options and policy file to one ``Request``; refuses what contradicts itself."""

from __future__ import annotations

import os
import sys

from perdure import clock
from perdure.cli.get.reading import name_from
from perdure.cli.get.record import TO_STDOUT, Request
from perdure.cli.options import Bad
from perdure.cli.settle import deadline_from_environment, outer_end
from perdure.errors import ConfigError
from perdure.policies import FOREVER, Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["settle"]


def settle(given: dict[str, Any]) -> Request:
    """Settle the values of the options (None: not given). Raises Bad for what cannot be."""
    output = _output(given)
    _refuse_contradictions(given, output)
    policy, deadline = _policy(given)
    return Request(
        urls=given["urls"],
        policy=policy,
        method=given["method"],
        headers=_headers(given),
        data=_data(given),
        output=output,
        checksum=given["sha256"] or given["checksum"],
        resume=not given["no_resume"],
        deadline=deadline,
        stall=given["stall"],
        hedge=given["hedge"],
        idempotency_key=given["idempotency_key"],
        quiet=given["quiet"],
        progress=not given["no_progress"],
        json=given["json"],
        report=given["report"],
        events=given["events"],
    )


def _refuse_contradictions(given: dict[str, Any], output: str) -> None:
    method = given["method"]
    if method == "POST" and not given["idempotency_key"]:
        raise Bad(
            "--method POST needs --idempotency-key: without one a retry could do the same thing twice, got none"
        )
    if given["data"] is not None and method not in ("PUT", "POST"):
        raise Bad(f"--data goes with --method PUT or POST, got --method {method}")
    if given["sha256"] is not None and given["checksum"] is not None:
        raise Bad("--sha256 and --checksum say the same thing; give one of them")
    if given["config"] and not given["policy"]:
        raise Bad(
            f"--config names a file of policies; say which with --policy, got --config {given['config']!r}"
        )
    if given["hedge"] is not None and len(given["urls"]) < 2:
        raise Bad("--hedge asks the next URL, so it needs two or more, got one")
    if len(given["urls"]) > 1 and method not in ("GET", "HEAD"):
        raise Bad(
            f"several URLs are copies of one content, which goes with --method GET or HEAD, got {method}"
        )
    writers = [name for name in ("report", "events") if given[name] == "-"] + ["json"] * given["json"]
    if writers and output == TO_STDOUT and not given["explain"] and not (method == "HEAD" and given["json"]):
        raise Bad(
            f"--{writers[0]} would write to standard output, where the content goes; use -o FILE, or --report FILE"
        )


def _output(given: dict[str, Any]) -> str:
    output: str | None = given["output"]
    if output is None:
        if given["method"] == "HEAD" and given["json"]:
            return os.devnull
        if given["method"] != "GET":
            return TO_STDOUT
        output = name_from(given["urls"][0])
        if output is None:
            raise Bad("-o FILE is needed where the URL does not end in a file name, got none")
    if output != TO_STDOUT and os.path.isdir(output):  # noqa: PTH112
        raise Bad(f"-o must be a file, got the folder {output!r}")
    return output


def _headers(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = list(given["header"])
    names = {name.lower() for name, _ in headers}
    if len(names) < len(headers):
        raise Bad("--header must not give the same name twice; put the values into one, with commas between")
    if given["idempotency_key"]:
        if "idempotency-key" in names:
            raise Bad("--idempotency-key and a --header of that name say the same thing; give one of them")
        headers.append(("Idempotency-Key", given["idempotency_key"]))
    if "user-agent" not in names:
        headers.append(("User-Agent", "perdure-get"))
    if given["data"] is not None and "content-type" not in names:
        headers.append(("Content-Type", "application/octet-stream"))
    return tuple(headers)


def _data(given: dict[str, Any]) -> bytes | str | None:
    """The body, or the path of the file with it."""
    text: str | None = given["data"]
    if text is None or given["explain"]:
        return None
    if not text.startswith("@"):
        return os.fsencode(text)
    path = text[1:]
    if path == "-":
        return sys.stdin.buffer.read()
    if not os.path.isfile(path):  # noqa: PTH113
        raise Bad(f"--data must be text, @- or @ and the name of a file, got {text!r}")
    if not os.access(path, os.R_OK):
        raise Bad(f"--data {text} cannot be read")
    return path


def _policy(given: dict[str, Any]) -> tuple[Retry, float | None]:
    """The policy, and the end of the whole in seconds, which stands around it."""
    base = _named(given["policy"], given["config"]) if given["policy"] else Retry(deadline=None)
    deadline = given["deadline"] or deadline_from_environment() or base.deadline
    attempts = base.attempts if given["attempts"] is None else given["attempts"][0]
    if attempts is None and deadline is None:
        raise Bad('--attempts unlimited needs --deadline (a duration, or "forever"), got none')
    changes: dict[str, Any] = {"attempts": attempts, "deadline": deadline, "name": "get", "on": None}
    changes |= {"never": None, "reject": None, "refresh": None, "on_exhausted": None, "safety": None}
    for option, field in (
        ("wait", "backoff"),
        ("timeout", "attempt_timeout"),
        ("max_retry_after", "hint_cap"),
    ):
        if given[option] is not None:
            changes[field] = given[option]
    try:
        policy = base.replace(**changes)
    except ConfigError as error:
        raise Bad(str(error)) from None
    return policy, _within_outer_end(None if deadline in (None, FOREVER) else deadline)


def _within_outer_end(deadline: float | None) -> float | None:
    """Seconds for the whole, cut to the end of an outer ``perdure run``."""
    outer = outer_end()
    if outer is None:
        return deadline
    left = max(0.0, outer - clock.wall())
    return left if deadline is None else min(deadline, left)


def _named(name: str, path: str | None) -> Retry:
    from perdure.cli.policies import find_policy

    return find_policy(name, path)
