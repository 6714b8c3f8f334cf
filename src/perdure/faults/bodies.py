"""What an error answer says besides its status: codes in its body and headers, delays, a word on retrying.

Documents are walked a few levels deep, and XML is searched, not parsed: nothing in it is expanded.
"""

from __future__ import annotations

import re

from perdure.faults.codes import CODES, EDGE, EXHAUSTED, NO_MONEY, PER_DAY, SKEW, plain
from perdure.faults.documents import fields, listed, objects, text_of
from perdure.faults.headers import read
from perdure.faults.hints import asked_delay, skew_of
from perdure.faults.kinds import FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    Code: TypeAlias = tuple[FaultKind, str]

__all__ = ["REASONABLE", "code_in"]

REASONABLE = 3_600.0
"""Seconds: a quota that is back within the hour is a throttle, one that takes longer is used up."""

_MEMBERS = 20
"""How many of a list of errors are looked at."""

_NAMES = ("code", "type", "__type", "reason", "error_code", "errorCode", "Code", "error", "status")
# Patterns as text: compiled, and kept by `re`, when the first body that is no JSON comes.
_XML_CODE = r"<(?:[A-Za-z0-9]{1,20}:)?Code>[ \t\r\n]{0,100}([A-Za-z0-9_.:-]{1,100})"
_EDGE_CODE = r"error code: (1[0-9]{3})\b|class=\"cf-error-code\">(1[0-9]{3})<"


def code_in(status: int, headers: object, body: object, document: Any) -> Code | None:
    """Find the code in an error answer that says more than its status: what it means, and the code; else None.

    `document` is what `load` made of the `body`. Of several codes the one that bars a retry counts, else the
    first that is known.
    """
    first: Code | None = None
    for code in _found(status, headers, body, document):
        if code[0] is FaultKind.PERMANENT:
            return code
        first = first or code
    return first


def _found(status: int, headers: object, body: object, document: Any) -> Iterator[Code]:
    edge = None
    if document is not None:
        texts = [text for error in _errors(document) for text in _texts(error)]
        edge = _edge_in(document)
    else:
        start = text_of(body)
        match = re.search(_XML_CODE, start) if "<" in start[:200] else None
        texts = [] if match is None else [match[1]]
        match = re.search(_EDGE_CODE, start) if status >= 520 or status in {403, 429} else None
        edge = None if match is None else match[1] or match[2]
    if headers is not None:
        for values in read(headers, "x-amzn-errortype", "x-ms-error-code").values():
            texts += values
    for text in texts:
        kind = _kind_of(text, headers, document)
        if kind is not None:
            yield kind, text.rpartition("#")[2].partition(":")[0]
    if edge in EDGE:
        yield EDGE[edge], edge


def _kind_of(code: str, headers: object, document: Any) -> FaultKind | None:
    word = plain(code)
    if word in NO_MONEY:
        return FaultKind.THROTTLED if _is_soon(None, document) else FaultKind.PERMANENT
    if word in EXHAUSTED or code == PER_DAY:
        return FaultKind.THROTTLED if _is_soon(headers, document) else FaultKind.PERMANENT
    if word in SKEW:
        return FaultKind.STALE if headers is not None and skew_of(headers) else None
    return CODES.get(word)


def _is_soon(headers: object, document: Any) -> bool:
    delay = asked_delay(headers, body=document)
    return delay is not None and 0 < delay <= REASONABLE


def _errors(document: Any) -> Iterator[dict[str, Any]]:
    """The objects of a document that may hold a code: itself, its errors, and what these hold."""
    for member in _some(document if isinstance(document, list) else [document]):
        yield member
        for error in _some([member.get("error"), *listed(member.get("errors"))]):
            yield error
            details = error.get("details")
            yield from _some([error.get("innererror"), details])
            yield from _some(error.get("errors"))
            yield from _some(details)


def _some(value: Any) -> Iterator[dict[str, Any]]:
    return objects(listed(value)[:_MEMBERS])


def _texts(error: dict[str, Any]) -> Iterator[str]:
    for name in _NAMES:
        text = error.get(name)
        if isinstance(text, str):
            yield text
    for violation in _some(error.get("violations")):  # google.rpc.QuotaFailure
        quota = violation.get("quotaId")
        if isinstance(quota, str) and "PerDay" in quota:
            yield "quota_exceeded"


def _edge_in(document: Any) -> str | None:
    own = fields(document)
    number = own.get("error_code") if own.get("cloudflare_error") is True else None
    return str(number) if isinstance(number, int) else None
