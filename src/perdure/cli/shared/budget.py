"""A budget by name: the retries of all processes draw from one bucket, which successes fill."""

from __future__ import annotations

import math

from perdure.core.budget import Bucket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.shared.store import Kept, Transaction

__all__ = ["SharedBudget", "level"]

KIND = "budget"

PER_SUCCESS = 0.1
CAP = 5.0

REMEMBERED = 86400.0
"""Seconds after which a success is written down although the bucket is full: the name is in use."""


class SharedBudget:
    """The view that one process has of a budget. Stateless: used within a transaction.

    A success pays in ``PER_SUCCESS``, up to ``CAP`` or, if larger, as many retries as any run that shares it may
    make. A new one starts with what its first run may need: its attempts - 1 (None: unlimited, the cap).
    """

    def __init__(self, name: str, attempts: int | None) -> None:
        self.name = name
        wanted = CAP if attempts is None else attempts - 1.0
        self._start = wanted
        self._cap = max(CAP, wanted)

    def deposit(self, tx: Transaction) -> None:
        """Pay in one success."""
        kept, bucket = self._load(tx)
        before, after = bucket.tokens(0), bucket.tokens(1)
        if kept is None or after != before or tx.now - kept.at > REMEMBERED:
            self._save(tx, bucket, kept)

    def withdraw(self, tx: Transaction) -> bool:
        """Pay for one retry; False: there is nothing left."""
        kept, bucket = self._load(tx)
        paid = bucket.withdraw(0)
        if paid or kept is None:
            self._save(tx, bucket, kept)
        return paid

    def refund(self, tx: Transaction) -> None:
        """Give back what a retry cost that was never made."""
        kept, bucket = self._load(tx)
        bucket.refund()
        self._save(tx, bucket, kept)

    def _load(self, tx: Transaction) -> tuple[Kept | None, Bucket]:
        kept = tx.get(KIND, self.name)
        tokens, cap = level(kept) or (self._start, self._cap)
        return kept, Bucket(PER_SUCCESS, max(cap, self._cap), tokens)

    def _save(self, tx: Transaction, bucket: Bucket, kept: Kept | None) -> None:
        if kept is None:
            tx.forget_old(KIND)
        tx.put(KIND, self.name, {"tokens": bucket.tokens(0), "cap": bucket.cap})


def level(kept: Kept | None) -> tuple[float, float] | None:
    """The tokens and the cap of a row; None where it says nothing that makes sense."""
    if kept is None:
        return None
    tokens, cap = kept.data.get("tokens"), kept.data.get("cap")
    if not isinstance(tokens, (int, float)) or not isinstance(cap, (int, float)):
        return None
    if not (math.isfinite(cap) and 0 <= tokens <= cap):
        return None
    return float(tokens), float(cap)
