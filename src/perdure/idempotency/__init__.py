"""Idempotency keys: one key for one logical call, over its retries, its hedges and the death of its process.

``Keys`` draws them for an HTTP client and ``ClientStore`` keeps them over a crash. Nothing here sends anything.
"""

from __future__ import annotations

from perdure.idempotency.answers import fault_of_keyed, replayed
from perdure.idempotency.claim import Claim
from perdure.idempotency.client_store import ClientStore, Pending
from perdure.idempotency.derive import derive
from perdure.idempotency.errors import (
    AlreadyDone,
    InProgress,
    KeyMissing,
    KeyProblem,
    KeyReused,
    OutcomeUnknown,
    StoreUnavailable,
)
from perdure.idempotency.keys import Keys
from perdure.idempotency.payload import fingerprint
from perdure.idempotency.profiles import PROFILES, Profile

__all__ = [
    "PROFILES",
    "AlreadyDone",
    "Claim",
    "ClientStore",
    "InProgress",
    "KeyMissing",
    "KeyProblem",
    "KeyReused",
    "Keys",
    "OutcomeUnknown",
    "Pending",
    "Profile",
    "StoreUnavailable",
    "derive",
    "fault_of_keyed",
    "fingerprint",
    "replayed",
]
