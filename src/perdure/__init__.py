"""perdure: the resilience layer for Python code that calls things which fail.

``@perdure.retry`` repeats only what is transient and safe, with jitter, server hints and a deadline. Names are
loaded when first used, so that importing perdure costs little and drags nothing in.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure import content as content
    from perdure import faults as faults
    from perdure import headers as headers
    from perdure import hints as hints
    from perdure import idempotency as idempotency
    from perdure import integrations as integrations
    from perdure import presets as presets
    from perdure import testing as testing
    from perdure.adapt import adapt as adapt
    from perdure.config import load, reload
    from perdure.core.backoff import Backoff, Exponential
    from perdure.core.explain import Explanation
    from perdure.core.shapes import Constant, Decorrelated, Fibonacci, Incremental, Linear, Schedule
    from perdure.dependency import Dependency
    from perdure.engine.ambient import time_left
    from perdure.engine.blocks import Attempt
    from perdure.engine.current import Current, current
    from perdure.engine.deadlines import deadline, no_deadline
    from perdure.engine.handover import carry
    from perdure.engine.shutdown import aclose, close, close_on_signals
    from perdure.engine.trail import attempts_of
    from perdure.errors import (
        AttemptTimeout,
        BreakerOpen,
        BulkheadFull,
        ConfigError,
        DeadlineExceeded,
        FaultyResponse,
        Isolated,
        Overloaded,
        PerdureError,
        RateLimited,
        Refused,
        ResultRejected,
        ShuttingDown,
    )
    from perdure.events import Event, listen
    from perdure.faults import Fault, FaultKind, Safety, classify, permanent, transient
    from perdure.outcome import AttemptRecord, Outcome, StopReason
    from perdure.parts import Breaker, Budget, Bulkhead, Fallback, Gate, Hedge, RateLimit, Timeouts
    from perdure.policies import FOREVER, Retry, retry
    from perdure.registry import dependencies

__version__ = "0.1.0"

_HOMES = {
    "perdure.config": "load reload",
    "perdure.core.backoff": "Backoff Exponential",
    "perdure.core.explain": "Explanation",
    "perdure.core.shapes": "Constant Decorrelated Fibonacci Incremental Linear Schedule",
    "perdure.engine.ambient": "time_left",
    "perdure.engine.blocks": "Attempt",
    "perdure.dependency": "Dependency",
    "perdure.engine.current": "Current current",
    "perdure.engine.deadlines": "deadline no_deadline",
    "perdure.engine.handover": "carry",
    "perdure.engine.shutdown": "aclose close close_on_signals",
    "perdure.engine.trail": "attempts_of",
    "perdure.errors": "AttemptTimeout BreakerOpen BulkheadFull ConfigError DeadlineExceeded FaultyResponse "
    "Isolated Overloaded PerdureError RateLimited Refused ResultRejected ShuttingDown",
    "perdure.events": "Event listen",
    "perdure.faults": "Fault FaultKind Safety classify permanent transient",
    "perdure.outcome": "AttemptRecord Outcome StopReason",
    "perdure.parts": "Breaker Budget Bulkhead Fallback Gate Hedge RateLimit Timeouts",
    "perdure.policies": "FOREVER Retry retry",
    "perdure.registry": "dependencies",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = {
    "adapt",
    "content",
    "faults",
    "headers",
    "hints",
    "idempotency",
    "integrations",
    "presets",
    "testing",
}

__all__ = [
    "FOREVER",
    "Attempt",
    "AttemptRecord",
    "AttemptTimeout",
    "Backoff",
    "Breaker",
    "BreakerOpen",
    "Budget",
    "Bulkhead",
    "BulkheadFull",
    "ConfigError",
    "Constant",
    "Current",
    "DeadlineExceeded",
    "Decorrelated",
    "Dependency",
    "Event",
    "Explanation",
    "Exponential",
    "Fallback",
    "Fault",
    "FaultKind",
    "FaultyResponse",
    "Fibonacci",
    "Gate",
    "Hedge",
    "Incremental",
    "Isolated",
    "Linear",
    "Outcome",
    "Overloaded",
    "PerdureError",
    "RateLimit",
    "RateLimited",
    "Refused",
    "ResultRejected",
    "Retry",
    "Safety",
    "Schedule",
    "ShuttingDown",
    "StopReason",
    "Timeouts",
    "__version__",
    "aclose",
    "attempts_of",
    "carry",
    "classify",
    "close",
    "close_on_signals",
    "current",
    "deadline",
    "dependencies",
    "listen",
    "load",
    "no_deadline",
    "permanent",
    "reload",
    "retry",
    "time_left",
    "transient",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"perdure.{name}")
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'perdure' has no attribute {name!r}")
        value: object = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
