"""Which client stands behind an object or a function, and which module here knows it: by names, without imports."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import FunctionType, MethodType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from perdure.adapt.times import Times

    class Adapter(Protocol):
        """What each module here has."""

        def knows(self, client: Any, /) -> bool:
            """Whether it is a client, and not something else of the package."""
            ...

        def without_retries(self, client: Any, /) -> Any:
            """Give the client without retries of its own."""
            ...

        def with_timeouts(self, client: Any, times: Times, /) -> Any:
            """Give the client with these timeouts."""
            ...

        def retries(self, client: Any, /) -> int | None:
            """How many requests it makes after the first has failed; None: not known."""
            ...


__all__ = ["adapter_of", "called", "client_of", "name_of"]

_ADAPTERS = {
    "anthropic": "stainless",
    "azure": "azure",
    "boto3": "boto",
    "botocore": "boto",
    "google": "genai",
    "httpx": "httpx",
    "httpx2": "httpx",
    "litellm": "litellm",
    "niquests": "requests",
    "ollama": "httpx",
    "openai": "stainless",
    "requests": "requests",
    "urllib3": "urllib3",
}
"""Top-level package of a client's class -> the module here."""

_packages: dict[type, str | None] = {}
_MOST = 1_000
"""Classes that were looked at, each once; more are made at run time, and forgotten together."""

_LAYERS = 8
"""Partials and wrappers around a method of a client; nobody nests more."""

_HOLDERS = ("_client", "_api_client")
"""Where the parts of a client, such as `client.chat.completions`, keep the client itself."""


def adapter_of(client: object) -> Adapter | None:
    """The module that knows a client; None: none does."""
    package = _package_of(client)
    if package is None:
        return None
    adapter: Any = import_module(f"perdure.adapt.{_ADAPTERS[package]}")
    return adapter if adapter.knows(client) else None


def client_of(thing: object) -> object | None:
    """The client that a function, method, partial or part of a client belongs to; `thing` if it is one; else None.

    For what is of other packages, this is a few attribute lookups. Never raises.
    """
    try:
        found = thing
        for _ in range(_LAYERS):
            if _package_of(found) is not None:
                return _whole(found)
            if type(found) is MethodType:  # the common case of a stranger ends here
                return None if _package_of(found.__self__) is None else _whole(found.__self__)
            found = _beneath(found)
            if found is None:
                return None
    except Exception:  # noqa: BLE001 - a foreign object may answer for any attribute with any error
        return None
    return None


def _beneath(thing: Any) -> object | None:
    """What a bound method is bound to, else what a partial or wrapper calls."""
    for name in ("__self__", "func", "__wrapped__"):
        below: object = getattr(thing, name, None)
        if below is not None and not isinstance(below, ModuleType):
            return below
    return None


def _whole(part: Any) -> object | None:
    for _ in range(_LAYERS):
        if adapter_of(part) is not None:
            return part  # type: ignore[no-any-return] # whatever it is
        part = next((below for name in _HOLDERS if (below := getattr(part, name, None)) is not None), None)
        if part is None:
            return None
    return None


def _package_of(thing: object) -> str | None:
    """The package in the table that an object's class comes from; of functions, partials and modules, litellm's."""
    thing = called(thing)
    if type(thing) is FunctionType:
        return "litellm" if str(thing.__module__).startswith("litellm.") else None
    if type(thing) is ModuleType:
        return "litellm" if thing.__name__ == "litellm" else None
    kind = type(thing)
    if kind not in _packages:
        if len(_packages) >= _MOST:
            _packages.clear()
        names = (str(base.__module__).partition(".")[0] for base in kind.__mro__)
        _packages[kind] = next((name for name in names if name in _ADAPTERS), None)
    return _packages.get(kind)


def called(thing: Any) -> Any:
    """What a partial calls; everything else is itself."""
    while type(thing) is partial:
        thing = thing.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return thing  # pyright: ignore[reportUnknownVariableType] # narrowed from Any


def name_of(client: Any) -> str:
    """The name of a client's class, function or module for people, without private modules: `openai.OpenAI`."""
    if isinstance(client, ModuleType):
        return client.__name__
    client = called(client)
    kind = client if isinstance(client, (type, FunctionType)) else type(client)
    return f"{kind.__module__.partition('._')[0]}.{kind.__qualname__}".removeprefix("builtins.")
