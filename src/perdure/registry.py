"""Which dependencies there are: declared once by name, shared where declared again in the same way.

``declare`` gives a dependency its state, or that of an equal one of the same name, and remembers where it was
declared, for the error that a different one of that name gets.
"""

from __future__ import annotations

from _thread import RLock
from dataclasses import fields, replace

from perdure import bypass
from perdure.checks import refuse
from perdure.engine.guard import Core, Guard
from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from perdure.dependency import Dependency
    from perdure.settings import Settings

__all__ = ["at", "declare", "dependencies", "view"]

_lock = RLock()
_known: dict[str, tuple[Dependency, Settings, Guard]] = {}


def declare(made: Dependency, name: Any, settings: Settings, frame: FrameType, *, replace: bool) -> Guard:
    """The guard of a new dependency, sharing the state of an equal one with that name."""
    if not isinstance(name, str) or not name.strip():
        raise refuse("name", "must be a string that is not empty", name)
    settings.check()
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    with _lock:
        before = _known.get(name)
        if before is not None and not replace:
            _, earlier, guard = before
            if earlier != settings:
                where = guard.core.place
                what = _difference(earlier, settings)
                raise ConfigError(
                    f"name must be another one, or the same values, or replace=True: {where} declares {name!r} "
                    f"with another {what}, got {name!r}"
                )
            return guard
        guard = _guard(Core(name, settings.kit(), place), settings)
        _known[name] = (made, settings, guard)
        return guard


def _guard(core: Core, settings: Settings) -> Guard:
    return Guard(core, settings.policy(), settings.timeouts, settings.hedge, settings.fallback, settings.key)


def _difference(one: Settings, other: Settings) -> str:
    return ", ".join(
        each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)
    )


def view(guard: Guard, settings: Settings, changes: dict[str, Any]) -> tuple[Guard, Settings]:
    """Another view of a dependency."""
    changed = replace(settings, **changes)
    changed.check()
    made = _guard(guard.core, changed)
    if guard.has_key:
        made.key, made.key_of = guard.key, None
    return made, changed


def at(guard: Guard, settings: Settings, key: Any) -> tuple[Guard, Settings]:
    """The view of one key."""
    made = Guard(guard.core, guard.retry, guard.timeouts, guard.hedge, guard.fallback, None, key)
    return made, settings


def dependencies() -> dict[str, Dependency]:
    """The declared dependencies by name. A copy; thread and task safe."""
    with _lock:
        return {name: made for name, (made, _, _) in _known.items()}


def swap(name: str, settings: Settings) -> bool:
    """Give a dependency other values, keeping its state and calls in flight; False where there is none.

    Raises ConfigError where the values cannot work; then all stays as it was.
    """
    settings.check()
    with _lock:
        made, before, guard = _known[name]
        if before == settings:
            return False
        fresh = _guard(guard.core, settings)
        guard.core.change(settings.kit())
        guard.take(fresh)
        made._settings = settings
        _known[name] = (made, settings, guard)
        return True


def known() -> dict[str, tuple[Dependency, Settings, Guard]]:
    """All that is declared now, to be put back by ``restore``."""
    with _lock:
        return dict(_known)


def restore(earlier: dict[str, tuple[Dependency, Settings, Guard]]) -> None:
    """Forget what was declared since, and put back what was declared then (for tests)."""
    with _lock:
        _known.clear()
        _known.update(earlier)


def reset() -> None:
    """Have every dependency begin anew (for tests)."""
    for _, _, guard in known().values():
        guard.core.forget()


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()
    for _, _, guard in _known.values():
        guard.core.forked()


bypass.after_fork(_new_lock)
