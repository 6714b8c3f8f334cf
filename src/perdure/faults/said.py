"""What a server says outright: whether to retry, and whose limit it is."""

from __future__ import annotations

import re

from perdure.faults.documents import fields, load
from perdure.faults.headers import read

__all__ = ["is_github_limit", "limit_scope", "should_retry"]

_WORDS = ("x-should-retry", "stripe-should-retry", "transient-error")
_PUSHBACK = "grpc-retry-pushback-ms"
_MILLISECONDS = re.compile(r"[0-9]{1,10}")
_SAID = {"true": True, "false": False}
_SCOPES = ("user", "shared", "global")
_GITHUB = "x-github-request-id"


def should_retry(headers: object) -> bool | None:
    """Give the server's own word on whether to try again, which outranks its status; None when it says nothing.

    Read from `x-should-retry` (OpenAI, Anthropic), `Stripe-Should-Retry` and `transient-error` (Adyen): "true"
    or "false". A `grpc-retry-pushback-ms` that is negative or no number says no; a delay in it is no word on
    whether. Where words differ, no counts; other values say nothing. Never raises. Reads only; safe from any
    thread or task.
    """
    found = read(headers, *_WORDS, _PUSHBACK)
    said = {_SAID.get(value.strip().lower()) for name in _WORDS for value in found.get(name, ())}
    if any(_MILLISECONDS.fullmatch(value.strip()) is None for value in found.get(_PUSHBACK, ())):
        return False
    if False in said:
        return False
    return True if True in said else None


def limit_scope(headers: object, body: object = None) -> str | None:
    """Say whose limit a 429 of Discord met: "user", "shared", "global", or None when it does not say.

    A global one stops every call of the client; a shared one was used up by others. `body` is the answer's,
    raw or parsed. Never raises. Reads only; safe from any thread or task.
    """
    found = read(headers, "x-ratelimit-scope", "x-ratelimit-global")
    for value in found.get("x-ratelimit-scope", ()):
        if (scope := value.strip().lower()) in _SCOPES:
            return scope
    if any(value.strip().lower() == "true" for value in found.get("x-ratelimit-global", ())):
        return "global"
    return "global" if fields(load(body)).get("global") is True else None


def is_github_limit(headers: object, body: object = None) -> bool:
    """Whether an answer of GitHub, which has 403 for this as well, means that one of its limits is met.

    The primary limit is told by its headers, a secondary one by `Retry-After`, or by the words that GitHub
    documents for it. Never raises. Reads only; safe from any thread or task.
    """
    found = read(headers, _GITHUB, "retry-after", "x-ratelimit-remaining")
    if _GITHUB not in found:
        return False
    if "retry-after" in found or found.get("x-ratelimit-remaining") == ["0"]:
        return True
    own = fields(load(body))
    said = [own.get(name) for name in ("message", "documentation_url")]
    words = " ".join(one[:2000].lower() for one in said if isinstance(one, str)).replace("-", " ")
    return "secondary rate limit" in words or "abuse detection" in words
