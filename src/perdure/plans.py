"""``Dependency.explain()``: the plan of a dependency, from that of its Retry and the parts around it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.core.explain import Explanation
    from perdure.engine.guard import Guard
    from perdure.settings import Settings


def explain_dependency(settings: Settings, guard: Guard) -> Explanation:
    """The plan of a dependency or of a view of one."""
    from perdure.core.explain import explain_retry

    del settings
    return explain_retry(guard.retry, guard.core.name)
