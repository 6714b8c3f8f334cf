"""Walks what lies under an exception: its causes, its contexts, the leaves of its groups."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

__all__ = ["LIMIT", "causes", "chain", "is_group", "leaves", "links"]

LIMIT = 32
"""The most exceptions one walk visits: a chain longer than this is a loop that re-raises."""


def chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield `exc`, then its causes and unsuppressed contexts, nearest first.

    At most 32 exceptions, each once, so a cycle ends. Reads only; safe from any thread or task.
    """
    for link, _ in links(exc):
        yield link


def links(exc: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield `(exception, explicit)`: explicit while every step to it was a `raise ... from`."""
    seen = {id(exc)}
    found = [(exc, True)]
    for link, explicit in found:  # grows while it is walked: breadth first
        yield link, explicit
        context = None if link.__suppress_context__ else link.__context__
        for below, is_cause in ((link.__cause__, True), (context, False)):
            if below is not None and id(below) not in seen and len(seen) < LIMIT:
                seen.add(id(below))
                found.append((below, explicit and is_cause))


def causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield the explicit causes of `exc`, nearest first, without `exc` itself."""
    seen = {id(exc)}
    cause = exc.__cause__
    while cause is not None and id(cause) not in seen and len(seen) < LIMIT:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__


def is_group(exc: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Whether `exc` is an exception group."""
    return isinstance(exc, BaseExceptionGroup)


def leaves(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group that are no groups themselves, however deep; else `exc` itself."""
    waiting = [exc]
    while waiting:
        member = waiting.pop()
        if is_group(member):
            waiting.extend(reversed(member.exceptions))
        else:
            yield member
