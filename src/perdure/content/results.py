"""Content rules for plain functions: a predicate on what they return."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.content.rules import Reply, Rule
from perdure.errors import ConfigError
from perdure.faults.documents import LIMIT
from perdure.faults.duck import loaded_body, status_of
from perdure.faults.kinds import RETRIED
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.faults.kinds import Fault

__all__ = ["rejects"]


def rejects(rule: Rule) -> Callable[[object], bool]:
    """Make a predicate on results for `Retry(reject=...)`: whether a rule sees a failure worth another attempt.

        @perdure.retry(reject=perdure.content.rejects(perdure.content.slack))

    A result is a response of a client library whose body is already in memory, its bytes or text, or the parsed
    JSON document. A stream that nobody has read is never read here, and never rejected; nor is a failure that
    another attempt does not cure, which the caller gets as the result it is. The predicate never raises, and is
    as safe for threads as the rule.

    Raises:
        ConfigError: `rule` is no rule.
    """
    if not isinstance(rule, Rule):
        raise ConfigError(f"rejects() takes a rule, got {rule!r}: wrap functions in rule()")
    return _Rejects(rule)


@dataclass(frozen=True, slots=True)
class _Rejects:
    rule: Rule

    def __call__(self, result: object) -> bool:
        fault = self.__perdure_fault__(result)
        return fault is not None and fault.kind in RETRIED

    def __perdure_fault__(self, result: object) -> Fault | None:
        """What the rule sees in a result; None where it sees no failure, or the result is no answer."""
        reply = _reply_of(result)
        return None if reply is None else self.rule(reply)


def _reply_of(result: object) -> Reply | None:
    if isinstance(result, (dict, list, bytes, bytearray, str)):
        return _made(result, 200, None)  # pyright: ignore[reportUnknownArgumentType]
    status, body = status_of(result), loaded_body(result)
    return None if status is None or body is None else _made(body, status, peek(result, "headers"))


def _made(body: object, status: int, headers: object) -> Reply:
    if isinstance(body, str):
        body = body[: LIMIT + 1].encode("utf-8", "surrogatepass")
    if not isinstance(body, (bytes, bytearray)):
        return Reply.of(body, status, headers)
    return Reply(status, headers, bytes(body[:LIMIT]), complete=len(body) <= LIMIT)
