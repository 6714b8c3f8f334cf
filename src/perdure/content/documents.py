"""Rules for APIs that answer with a JSON document: GraphQL, Slack, JSON-RPC, and JSON at all."""

from __future__ import annotations

from perdure.content.rules import Reply, Rule
from perdure.content.words import failure, gravest, kind_of, shown
from perdure.faults.documents import fields, listed, objects
from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["graphql", "graphql_strict", "json", "json_rpc", "slack"]


# -- GraphQL ---------------------------------------------------------------------------------------------


def _graphql(reply: Reply) -> Fault | None:
    return gravest(_errors_of(reply, strict=False))


def _graphql_strict(reply: Reply) -> Fault | None:
    return gravest(_errors_of(reply, strict=True))


def _errors_of(reply: Reply, *, strict: bool) -> Iterator[Fault]:
    for answer in _each(reply.json()):
        errors = list(objects(answer.get("errors")))
        if errors and (strict or not _has_data(answer.get("data"))):
            for error in errors:
                fault = _graphql_error(reply, error, answer)
                if fault is not None:
                    yield fault


def _has_data(data: Any) -> bool:
    """A field that failed is null: an answer in which every field is null carries nothing."""
    return any(value is not None for value in fields(data).values()) or bool(listed(data))


def _graphql_error(reply: Reply, error: dict[str, Any], answer: dict[str, Any]) -> Fault | None:
    places = [fields(error.get("extensions")), error]
    codes = [
        code
        for place in places
        for name in ("code", "type", "errorType")
        if isinstance(code := place.get(name), str)
    ]
    for code in codes:
        kind = kind_of(code)
        if kind is not None:
            return failure(reply, kind, f"GraphQL: {shown(code)}", answer)
    if reply.status >= 400:  # it says more than a code that nobody knows
        return None
    return failure(
        reply, FaultKind.PERMANENT, f"GraphQL: {shown(codes[0]) if codes else 'error without a code'}"
    )


def _each(document: Any) -> Iterator[dict[str, Any]]:
    """The answers of a batch, or the one there is."""
    return objects(document if isinstance(document, list) else [document])


graphql: Rule = Rule("graphql", "whole", _graphql)
"""Errors of GraphQL, by their `code`; an answer that has data beside its errors counts as well done."""

graphql_strict: Rule = Rule("graphql_strict", "whole", _graphql_strict)
"""As `graphql`, but any error is a failure, also beside data."""


# -- Slack -----------------------------------------------------------------------------------------------

_SLACK = {
    **dict.fromkeys(("ratelimited", "rate_limited"), FaultKind.THROTTLED),
    **dict.fromkeys(("service_unavailable", "request_timeout", "team_added_to_org"), FaultKind.TRANSIENT),
    # Slack says of both that part of the operation may have succeeded.
    **dict.fromkeys(("internal_error", "fatal_error"), FaultKind.AMBIGUOUS),
    "token_expired": FaultKind.STALE,
}


def _slack(reply: Reply) -> Fault | None:
    document = fields(reply.json())
    if document.get("ok") is not False:
        return None
    error = document.get("error")
    kind = _SLACK.get(error, FaultKind.PERMANENT) if isinstance(error, str) else FaultKind.PERMANENT
    return failure(reply, kind, f"Slack: {shown(error)}", document)


slack: Rule = Rule("slack", "whole", _slack)
"""Slack's Web API: `{"ok": false, "error": ...}`."""


# -- JSON-RPC --------------------------------------------------------------------------------------------

_RPC = {
    -32603: (FaultKind.AMBIGUOUS, "internal error"),
    -32001: (FaultKind.AMBIGUOUS, "request timed out"),  # of the Model Context Protocol
    -32005: (FaultKind.THROTTLED, "limit exceeded"),  # of Ethereum nodes
}


def _json_rpc(reply: Reply) -> Fault | None:
    faults: list[Fault] = []
    for answer in _each(reply.json()):
        code = fields(answer.get("error")).get("code")
        if isinstance(code, int) and not isinstance(code, bool) and ("jsonrpc" in answer or "id" in answer):
            kind, words = _RPC.get(code, (FaultKind.PERMANENT, "error"))
            faults.append(failure(reply, kind, f"JSON-RPC: {words} {shown(code)}", answer))
    return gravest(faults)


json_rpc: Rule = Rule("json_rpc", "whole", _json_rpc)
"""Errors of JSON-RPC 2.0 by number; numbers that servers define for themselves are permanent, but for those of
Ethereum's limit and of the Model Context Protocol's timeout."""


# -- JSON at all -----------------------------------------------------------------------------------------

_NO_BODY = (204, 205, 304)
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")


def _json(reply: Reply) -> Fault | None:
    if not 200 <= reply.status < 300 or reply.status in _NO_BODY or reply.json() is not None:
        return None
    start = reply.body[:1000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.lower().startswith(_HTML) or (
        start[:1] == b"<" and "html" in reply.header("content-type").lower()
    ):
        return failure(reply, FaultKind.TRANSIENT, "an HTML page where JSON was expected")
    if not reply.complete:  # there is more of it than was looked at
        return None
    if not start:
        return failure(reply, FaultKind.AMBIGUOUS, "empty body where JSON was expected")
    return _unreadable(reply)


def _unreadable(reply: Reply) -> Fault | None:
    import json

    try:
        json.loads(reply.body, parse_int=float)
    except json.JSONDecodeError as error:
        # The last 8 characters may be half of a word or a number.
        is_cut = error.pos >= len(error.doc.rstrip()) - 8 or error.msg.startswith("Unterminated string")
        if is_cut and reply.text().lstrip()[:1] in {"{", "[", '"'}:
            return failure(reply, FaultKind.AMBIGUOUS, "JSON ends too early")
    except (ValueError, RecursionError):  # bytes that are no text; a thousand lists in each other
        return failure(reply, FaultKind.PERMANENT, "not JSON")
    else:
        return None
    return failure(reply, FaultKind.PERMANENT, "not JSON")


json: Rule = Rule("json", "whole", _json)
"""JSON was expected: an HTML page of a portal or a proxy is transient, a document that was cut is ambiguous."""
