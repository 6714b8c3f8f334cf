"""Rules for streams, which say how they fail after their status: server-sent events, and lines of JSON.

Only what comes before the first content is looked at: once something was delivered, nothing may be repeated.
"""

from __future__ import annotations

import re

from perdure.content.rules import Reply, Rule
from perdure.content.words import failure, kind_of_error, shown
from perdure.faults.documents import fields, listed, load, text_of
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.signal import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["ndjson", "sse"]

_LINE_END = re.compile(r"\r\n|\n|\r")

_ERRORS = frozenset({"error", "response.failed"})
_BEFORE_CONTENT = frozenset(
    {
        *("ping", "heartbeat", "keepalive", "keep-alive", "open", "message_start", "content_block_start"),
        *("response.created", "response.queued", "response.in_progress", "response.output_item.added"),
        "response.content_part.added",
    }
)

_CONTENT = object()

_SHORT, _KEPT = 200, 5_000
_DULL: set[str] = set()
"""Events that decide nothing, such as pings: those that 64 KiB hold, or fewer."""


def _lines(text: str, *, complete: bool) -> list[str]:
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    return lines if complete else lines[:-1]  # the last one may go on


def _events(text: str, *, complete: bool) -> Iterator[tuple[str, str]]:
    """The events with their type and data, in order."""
    kind, data = "", list[str]()
    for line in [*_lines(text, complete=complete), *([""] if complete else [])]:
        name, _, value = line.partition(":")
        if line == "":
            if kind or data:
                yield kind, "\n".join(data)
            kind, data = "", []
        elif name == "event":
            kind = value.strip()
        elif name == "data":
            data.append(value.removeprefix(" "))


def _first_word(text: str, *, complete: bool) -> Any:
    """What the events say: the error object of a failure, `_CONTENT`, or None while neither has come."""
    for kind, data in _events(text, complete=complete):
        document = fields(load(data))
        named = document.get("type")
        names = {kind, named} if isinstance(named, str) else {kind}
        error: object = document.get("error")
        if names & _ERRORS or (error and isinstance(error, (dict, str))):
            inner = fields(document.get("response")).get("error")
            return error or inner or document  # pyright: ignore[reportUnknownVariableType]
        if not (names & _BEFORE_CONTENT or _is_hollow(document) or (not data and not kind)):
            return _CONTENT
    return None


def _is_hollow(document: dict[str, Any]) -> bool:
    """Whether it is a chunk of a chat that brings no more than the role."""
    choices = listed(document.get("choices"))
    return bool(choices) and not any(_says_something(fields(choice)) for choice in choices)


def _says_something(choice: dict[str, Any]) -> bool:
    if "delta" not in choice or choice.get("finish_reason"):
        return True
    return any(value for name, value in fields(choice["delta"]).items() if name != "role")


def _sse(reply: Reply) -> Fault | None:
    word = _first_word(reply.text(), complete=reply.complete)
    return None if word is None or word is _CONTENT else _failed(reply, word, "event stream")


def _sse_enough(start: bytes) -> bool:
    """Asked again at every chunk, so what was there before must cost next to nothing: it is not parsed again."""
    text = text_of(start).removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    last = max(text.rfind("data"), text.rfind("event"))
    if last < 0:
        return False
    end = text.find("\n\n", last)
    *whole, _ = (text if end < 0 else text[: end + 2]).split("\n\n")
    return any(event not in _DULL and _decides(event) for event in dict.fromkeys(whole))


def _decides(event: str) -> bool:
    if _first_word(f"\n{event}\n\n", complete=False) is not None:
        return True
    if len(event) <= _SHORT:
        if len(_DULL) >= _KEPT:
            _DULL.clear()
        _DULL.add(event)
    return False


def _failed(reply: Reply, error: Any, what: str) -> Fault:
    code = fields(error).get("code")
    kind, name = kind_of_error(reply, error)
    if kind is None and isinstance(code, int) and 400 <= code <= 599:
        kind, name = fault_of_status(code).kind, fault_of_status(code).why
    if kind is None:  # words alone came from a server that had begun to work
        kind, word = FaultKind.AMBIGUOUS, quoted(shown(name)) if name else "error"
    else:
        word = shown(name)
    return failure(reply, kind, f"{what}: {word}", {"error": error})


def _first_line(start: bytes, *, complete: bool) -> str | None:
    return next((line for line in _lines(text_of(start), complete=complete) if line.strip()), None)


def _ndjson(reply: Reply) -> Fault | None:
    line = _first_line(reply.body, complete=reply.complete)
    document = fields(None if line is None else load(line))
    if document.get("type") == "ERROR" and (status := fields(document.get("object"))):
        return _failed(reply, status, "watch")  # of Kubernetes
    error = document.get("error")
    return _failed(reply, error, "JSON lines") if error and isinstance(error, (dict, str)) else None


def _ndjson_enough(start: bytes) -> bool:
    return _first_line(start, complete=False) is not None


sse: Rule = Rule("sse", "start", _sse, _sse_enough)
"""Server-sent events: an error event before the first content, as model providers send it under status 200."""

ndjson: Rule = Rule("ndjson", "start", _ndjson, _ndjson_enough)
"""Lines of JSON, of which the first is an error: `{"error": ...}`."""
