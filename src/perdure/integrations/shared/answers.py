"""Whether an answer is a failure: its status, what its body says, and what the user checks."""

from __future__ import annotations

from copy import copy
from functools import cache

from perdure.faults.kinds import RETRIED, Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.integrations.shared.options import Options
    from perdure.policies import Retry

__all__ = ["LOOKS", "Judge", "Scope", "is_cut", "length_of"]

LOOKS = 100
"""So often a rule is asked whether the start of a body is enough: a server may send it byte by byte."""

_BY_MORE = frozenset({400, 401, 403, 407, 409, 413, 507})
"""Statuses that headers or the body may turn into another failure than the status alone says."""


class Scope:
    """How much of a body has to be looked at. ``None``: nothing."""

    START, WHOLE = "start", "whole"


@cache
def _watched() -> frozenset[int]:
    from perdure.faults.http import fault_of_status

    doubtful = {status for status in range(400, 600) if fault_of_status(status).kind in RETRIED}
    return frozenset(doubtful | _BY_MORE)


class Judge:
    """Says which answers are failures under one policy and its options. Immutable: share it as you like."""

    __slots__ = ("_chooses", "_content", "_is_keyed", "_refreshes", "_validate", "looks_at_good", "watched")

    def __init__(self, retry: Retry, options: Options) -> None:
        self._chooses: bool = retry.selector is not None
        self._refreshes: bool = retry.refresh is not None
        self._content: Any = options.content
        self._validate: Any = options.validate
        self._is_keyed = False
        self.looks_at_good: bool = options.content is not None or options.validate is not None
        self.watched: frozenset[int] = frozenset(range(400, 600)) if self._chooses else _watched()

    def keyed(self) -> Judge:
        """The same for requests with an idempotency key, of which a conflict may only mean: still in progress."""
        twin = copy(self)
        twin._is_keyed = True
        return twin

    def scope(self, status: int, method: str) -> str | None:
        """How much of the body the verdict needs."""
        if method == "HEAD" or status in {204, 304}:
            return None
        if status >= 400:
            return Scope.WHOLE if status in self.watched or self.looks_at_good else None
        if self._validate is not None:
            return Scope.WHOLE
        if self._content is not None:
            return Scope.START if getattr(self._content, "reads", Scope.WHOLE) == Scope.START else Scope.WHOLE
        return None

    def is_enough(self, start: bytes) -> bool:
        """Whether the start of a body is enough for a rule that reads no more."""
        enough = getattr(self._content, "is_enough", None)
        return bool(start) if enough is None else bool(enough(start))

    def fault(
        self, status: int, headers: Any, method: str, body: bytes = b"", *, complete: bool = True
    ) -> Fault | None:
        """What a failure the answer is; None for one that goes to the caller as it is."""
        if status >= 400:
            found = self._by_status(status, headers, method, body or None)
            if self._chooses or found.kind in RETRIED:
                return found
            if found.kind is FaultKind.STALE and self._refreshes:
                return found
        return self._by_content(status, headers, body, complete=complete) if self.looks_at_good else None

    def _by_status(self, status: int, headers: Any, method: str, body: bytes | None) -> Fault:
        if self._is_keyed:
            from perdure.idempotency import fault_of_keyed

            return fault_of_keyed(status, headers, body, method=method)
        from perdure.faults.http import fault_of_status

        return fault_of_status(status, headers, method, body)

    def _by_content(self, status: int, headers: Any, body: bytes, *, complete: bool) -> Fault | None:
        from perdure.content import Reply
        from perdure.engine.hooks import ask
        from perdure.engine.logs import complain

        reply = Reply(status, headers, body, complete)
        if self._content is not None and (found := ask(self._content, "content=", reply)) is not None:
            fault = _fault_of(found)
            if fault is None:
                complain(
                    self._content, "content=", TypeError(f"it gave {found!r}, no Fault, FaultKind or None")
                )
            return fault
        return None if self._validate is None or status >= 400 else _validated(self._validate, reply)


def length_of(field: str | None) -> int | None:
    """The bytes that a ``Content-Length`` announces; None where it announces none, or is no number."""
    if field is None or not (field.isascii() and field.isdigit()):
        return None
    return int(field) if len(field) <= 18 else 10**18  # int() refuses thousands of digits


def is_cut(original: Any) -> bool:
    """Whether the connection ended inside the headers: http.client takes that for an answer with an empty body.

    ``original`` is the answer of http.client. What it could not read as a header is its payload, which ends with a
    line where the server only wrote a bad header. A cut between two headers, or in a value, cannot be told.
    """
    message: Any = getattr(original, "msg", None)
    if not getattr(message, "defects", None):
        return False
    rest = message.get_payload()
    return isinstance(rest, str) and rest != "" and not rest.endswith("\n")


def _validated(validate: Any, reply: Any) -> Fault | None:
    try:
        says = validate(reply)
    except Exception as error:  # noqa: BLE001 - that is how a validator says no
        text = str(error).strip().partition("\n")[0][:200]
        return Fault(
            FaultKind.TRANSIENT, None, f"answer not valid: {type(error).__name__}: {text}".rstrip(": ")
        )
    return Fault(FaultKind.TRANSIENT, None, "answer not valid") if says is False else _fault_of(says)


def _fault_of(says: object) -> Fault | None:
    """What a user's function took the answer for; None where it says neither a Fault nor a FaultKind."""
    if isinstance(says, FaultKind):
        return Fault(says, None, "answer not valid")
    return says if isinstance(says, Fault) else None
