"""Locks and connections do not survive a fork: who has any is told in the child."""

from __future__ import annotations

from perdure import bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
    from weakref import WeakSet

    class Forked(Protocol):
        """Something that has to begin anew in a forked child."""

        def renew(self) -> None:
            """Drop what belongs to the parent's threads."""


__all__ = ["watch"]

_all: WeakSet[Forked] | None = None


def watch(one: Forked) -> None:
    """Call ``one.renew()`` in forked children for as long as it lives. Safe from any thread."""
    global _all  # noqa: PLW0603 - made when first needed: weakref is an import
    if _all is None:
        from weakref import WeakSet

        _all = WeakSet()
    _all.add(one)


def _renew() -> None:
    for one in tuple(_all or ()):
        one.renew()


bypass.after_fork(_renew)
