"""perdure under the HTTP clients people use: one module per client library, loaded when it is asked for.

``perdure.integrations.httpx`` (and ``httpx2``), ``requests``, ``niquests``, ``urllib3``, ``aiohttp``. Each takes a
``Dependency`` or a ``Retry`` and the same options; ``override`` says otherwise for the requests in a block.
"""

from __future__ import annotations

from perdure.integrations.shared.options import Options, override

__all__ = ["Options", "override"]

_CLIENTS = {"aiohttp", "httpx", "httpx2", "niquests", "requests", "urllib3"}


def __getattr__(name: str) -> object:
    """Load the module of a client when it is asked for."""
    if name in _CLIENTS:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
