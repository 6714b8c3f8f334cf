"""Looks, where a function is given to a policy, whether its client makes requests again by itself."""

from __future__ import annotations

from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["look_at"]


def look_at(fn: Callable[..., Any], attempts: int | None) -> None:
    """Warn once per client whose own retries multiply with those of the policy; plain functions cost one test."""
    if type(fn) is not FunctionType and getattr(fn, "__self__", None) is not None:
        from perdure.adapt import warn_if_retrying

        warn_if_retrying(fn, attempts)
