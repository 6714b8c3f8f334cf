"""Leases that are out, each with its expiry: a call that never reports gives its place back all the same."""

from __future__ import annotations

from perdure.core.lease import Lease

__all__ = ["Leases"]


class Leases:
    """The leases of one period that have neither reported nor expired.

    ``term`` is how many seconds a lease lasts. All last equally long and time never goes back, so the first to
    be given is the first to expire. Its holder takes care that one thread calls it at a time.
    """

    __slots__ = ("_out", "_term")

    def __init__(self, term: float) -> None:
        self._term = term
        self._out: dict[Lease, None] = {}  # in the order given

    def __len__(self) -> int:
        return len(self._out)

    def give(self, generation: int, now: float, *, probe: bool) -> Lease:
        """A new lease from ``now`` on."""
        lease = Lease(generation, probe=probe, until=now + self._term)
        self._out[lease] = None
        return lease

    def take_back(self, lease: Lease) -> bool:
        """Free the place of a lease; False when it holds none (any more)."""
        if lease not in self._out:
            return False
        del self._out[lease]
        lease.done = True
        return True

    def expire(self, now: float) -> int:
        """Free the places whose time is over; gives how many."""
        gone: list[Lease] = []
        for lease in self._out:
            if lease.until > now:
                break
            gone.append(lease)
        for lease in gone:
            del self._out[lease]
        return len(gone)

    def clear(self) -> None:
        """Free all places: a new period begins."""
        self._out.clear()

    def taken(self, now: float) -> int:
        """How many will be out at ``now`` if nobody reports; changes nothing."""
        return sum(lease.until > now for lease in self._out)

    def next_expiry(self, now: float) -> float:
        """When the next place comes free by expiry; infinite where none is taken. Changes nothing."""
        return next((lease.until for lease in self._out if lease.until > now), float("inf"))
