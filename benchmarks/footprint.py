"""What one decorated function costs in memory, and how long decorating it takes.

One fresh process for each contender. The functions are made first, each with a code object of its own as in
a real program; a few hundred are decorated to load and fill whatever is shared; then the growth of resident
memory over 5,000 more is read, after a collection.

Kinds: ``alike`` functions all take ``(x, y=0)`` and each has its own ``@retry(...)`` as one would
write it; ``one-policy`` decorates them with one policy object; ``different`` ones have no two parameter
lists in common, which is the worst case for a wrapper that is generated for a parameter list. ``breaker-own``
and ``breaker-one`` are ``alike`` and ``one-policy`` with a breaker instead of a retry.

As a module it is the child: ``python -m benchmarks.footprint CONTENDER KIND FUNCTIONS``.
"""

from __future__ import annotations

import gc
import json
import sys
from time import process_time
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.breakers import BreakerPlan
from benchmarks.contenders import NotOffered, Plan
from benchmarks.fresh import log_as_in_production, resident_bytes
from benchmarks.lineups import LINEUPS

if TYPE_CHECKING:
    from benchmarks.targets import Function

Kind = Literal["alike", "one-policy", "different", "breaker-own", "breaker-one"]

_WARM_UP = 500


def functions(kind: Kind, start: int, stop: int) -> list[Function]:
    """Make that many functions, none sharing its code object with another."""
    parameters = "x{0}, y{0}=0" if kind == "different" else "x, y=0"
    made = []
    for number in range(start, stop):
        namespace: dict[str, Any] = {}
        exec(f"def f{number}({parameters.format(number)}): return 1", namespace)  # noqa: S102 - our own text
        made.append(namespace[f"f{number}"])
    return made


def measure(name: str, kind: Kind, count: int) -> dict[str, float]:
    """Decorate ``count`` functions here; bytes and microseconds for each."""
    guards = kind.startswith("breaker")
    build = LINEUPS["breaker" if guards else "retry"][name].build
    plan: Any = BreakerPlan("sync", ramp=True) if guards else Plan("sync")
    warm, plain = functions(kind, 0, _WARM_UP), functions(kind, _WARM_UP, _WARM_UP + count)
    keep = [build(plan)(function) for function in warm]
    decorated: list[Any] = [None] * count
    shared = build(plan) if kind in {"one-policy", "breaker-one"} else None
    gc.collect()
    memory, begin = resident_bytes(), process_time()
    for position, function in enumerate(plain):
        decorated[position] = (shared or build(plan))(function)
    elapsed = process_time() - begin
    gc.collect()
    grown = resident_bytes() - memory
    assert len(keep) == _WARM_UP  # noqa: S101 - they have to stay alive until here
    return {"bytes": grown / count, "decorate_us": elapsed / count * 1e6}


def child(name: str, kind: Kind, count: int) -> dict[str, object]:
    """Measure one contender in this process."""
    log_as_in_production()
    try:
        return {**measure(name, kind, count)}
    except NotOffered as error:
        return {"absent": f"not offered: {error}"}
    except ImportError:
        return {"absent": "not installed"}


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], int(sys.argv[3]))))  # type: ignore[arg-type]
