"""What calls are named in logs, events and notes: an id, and an operation."""

from __future__ import annotations

import os
from itertools import count
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.engine.fused import Site
    from perdure.engine.run import Run

_ids = count(1)


def call_id(run: Run) -> str:
    """The call's id, made when it is first needed."""
    if not run.call_id:
        run.call_id = f"{os.getpid():x}-{next(_ids):x}"
    return run.call_id


def operation(run: Run | Site) -> str:
    """What is called, for logs, events and notes."""
    return run.policy.name or operation_name(run.fn)


def named(run: Run) -> tuple[str | None, str | None]:
    """The dependency and the key that a call goes to; (None, None) for a bare Retry."""
    guard = run.guard
    if guard is None:
        return None, None
    return guard.core.name, run.key_text()


def operation_name(fn: object) -> str:
    """The name of what is called: module and qualified name, the type of a callable object, a block's place."""
    if isinstance(fn, CodeType):
        return f"{fn.co_qualname} (block)"
    while type(fn).__name__ == "partial":
        fn = getattr(fn, "func", fn)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    module = getattr(fn, "__module__", None) or ""
    return f"{module}.{name}" if module and module != "__main__" else str(name)
