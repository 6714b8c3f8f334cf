"""Asking the user's functions: what they raise is logged once and never changes the outcome of a call."""

from __future__ import annotations

from perdure.colour import discard, is_awaitable
from perdure.engine import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def agrees(hook: Callable[..., object], what: str, *given: object) -> bool:
    """Whether the hook says yes; no where it raised, or its answer has no truth value."""
    answer = ask(hook, what, *given)
    try:
        return bool(answer)
    except Exception as error:  # noqa: BLE001 - arrays and the like
        logs.complain(hook, what, error)
        return False


def ask(hook: Callable[..., object], what: str, /, *given: object, **named: object) -> object:
    """What the hook answers; None where it raised, or answered with something to await.

    ``what`` names the hook in the log line. BaseExceptions that are not Exceptions pass.
    """
    try:
        answer = hook(*given, **named)
    except Exception as error:  # noqa: BLE001 - a hook never changes the outcome
        logs.complain(hook, what, error)
        return None
    if is_awaitable(answer):
        discard(answer)
        logs.complain(hook, what, TypeError("it returned an awaitable; hooks are plain functions"))
        return None
    return answer
