"""Looks, where a function is given to a policy, whether its client makes requests again by itself."""

from __future__ import annotations

from _weakref import ref
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["PACKAGES", "look_at"]

PACKAGES = frozenset(
    {
        *("anthropic", "azure", "boto3", "botocore", "google", "httpx", "httpx2", "litellm", "niquests"),
        *("ollama", "openai", "requests", "urllib3"),
    }
)
"""Those of the clients that ``perdure.adapt`` knows, which is loaded for no other."""

_MOST = 1_000
_looked_at: dict[int, ref[Any]] = {}  # by id


def look_at(fn: Callable[..., Any], attempts: int | None) -> None:
    """Warn once per client whose own retries multiply with those of the policy; plain functions cost one test."""
    if type(fn) is FunctionType or attempts == 1:
        return
    owner = getattr(fn, "__self__", None) or getattr(getattr(fn, "func", None), "__self__", None)
    if owner is None or type(owner).__module__.partition(".")[0] not in PACKAGES:
        return
    if (seen := _looked_at.get(id(owner))) is not None and seen() is owner:
        return
    if len(_looked_at) >= _MOST:
        _looked_at.clear()
    try:
        _looked_at[id(owner)] = ref(owner)
    except TypeError:  # some class with slots: it is looked at each time
        pass
    from perdure.adapt import warn_if_retrying

    warn_if_retrying(fn, attempts)
