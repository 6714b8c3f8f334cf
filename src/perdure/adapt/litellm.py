"""litellm: Routers, and module functions, which make two retries unless each call says otherwise."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import FunctionType, ModuleType

from perdure.adapt.known import called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]

_CALLS = frozenset(
    {
        *("completion", "acompletion", "text_completion", "atext_completion", "embedding", "aembedding"),
        *("responses", "aresponses", "image_generation", "aimage_generation", "transcription"),
        *("atranscription", "speech", "aspeech", "moderation", "amoderation"),
    }
)
_DEFAULT = 2


def knows(client: Any) -> bool:
    """Whether it is a Router, a function that makes a request, a partial of one, or litellm itself."""
    if isinstance(client, ModuleType):
        return True
    client = called(client)
    if isinstance(client, FunctionType):
        return client.__name__ in _CALLS
    return hasattr(client, "num_retries") and hasattr(client, "acompletion")


def without_retries(client: Any) -> Any:
    """A Router is changed in place; of a function comes a partial.

    A number that was set for the whole process (``litellm.num_retries``) outranks what a call says, so it is unset.
    """
    if isinstance(client, ModuleType):
        raise TypeError("its functions take it from each call: adapt the function, or a Router")
    if _is_call(client):
        _module().num_retries = None
        return partial(client, max_retries=0)
    client.num_retries = 0
    client.retry_policy = None
    client.model_group_retry_policy = None
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """One number for everything."""
    if _is_call(client):
        return client if times.whole is None else partial(client, timeout=times.whole)
    client.timeout = client.stream_timeout = times.whole
    return client


def retries(client: Any) -> int | None:
    """Of a function: as it is bound; else litellm's own default, which no setting of the module changes."""
    if isinstance(client, ModuleType):
        return _DEFAULT
    if not _is_call(client):
        return int(client.num_retries)
    bound: dict[str, Any] = client.keywords if isinstance(client, partial) else {}
    around = bound.get("num_retries") or _module().num_retries or 0
    return int(bound.get("max_retries", _DEFAULT)) + int(around)


def _module() -> Any:
    return import_module("litellm")


def _is_call(client: Any) -> bool:
    return isinstance(client, (FunctionType, partial))
