"""``perdure get``: fetch a URL until all of it is here, or until there is no point."""

from __future__ import annotations

from perdure.cli.get.command import get

__all__ = ["get"]
