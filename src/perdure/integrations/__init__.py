"""perdure under the HTTP clients people use: one module per client library, loaded when it is asked for.

``perdure.integrations.httpx`` (and ``httpx2``), ``requests``, ``niquests``, ``urllib3``, ``aiohttp``. Each takes a
``Dependency`` or a ``Retry`` and the same options; ``override`` says otherwise for the requests in a block.
"""

from __future__ import annotations

from perdure.integrations.options import Options, override

__all__ = ["Options", "override"]
