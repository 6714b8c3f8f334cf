"""Which dependencies there are: declared once by name, shared where declared again in the same way.

``declare`` gives a dependency its state, or that of an equal one of the same name, and remembers where it was
declared, for the error that a different one of that name gets. ``overlay`` puts the values of configuration files
over what code declared, whichever comes first, and swaps them while calls are in flight.
"""

from __future__ import annotations

from _thread import RLock
from dataclasses import fields, replace

from perdure import bypass
from perdure.checks import refuse
from perdure.engine import queueing, telling
from perdure.engine.guard import Core, Guard
from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

    from perdure.dependency import Dependency
    from perdure.settings import Settings

    Override = Callable[[Settings | None], Settings]
    Layers = dict[str, dict[str, Override]]

__all__ = ["dependencies"]


class Entry:
    """What is known of one name. Immutable; ``settings`` are those that calls go by."""

    __slots__ = ("guard", "made", "settings", "written")

    def __init__(self, made: Dependency, written: Settings | None, settings: Settings, guard: Guard) -> None:
        self.made: Dependency = made
        self.written: Settings | None = written  # by code; None: a file alone declared it
        self.settings: Settings = settings
        self.guard: Guard = guard


class Known(dict[str, Entry]):
    """All that is declared at some moment, and by which files."""

    layers: Layers


_lock = RLock()
_known: dict[str, Entry] = {}
_layers: Layers = {}  # by file, in the order loaded: what it says about each name


def declare(made: Dependency, name: Any, settings: Settings, frame: FrameType, *, replace: bool) -> Guard:
    """The guard of a new dependency, sharing the state of an equal one with that name."""
    if not isinstance(name, str) or not name.strip():
        raise refuse("name", "must be a string that is not empty", name)
    settings.check()
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    with _lock:
        before = None if replace else _known.get(name)
        if before is None:
            return _new(made, name, settings, _overlaid(name, settings, _layers) or settings, place).guard
        if before.written is None:  # a file was there first: its values go over these
            _swap({name: (settings, _overlaid(name, settings, _layers) or settings)})
            before.guard.core.place = place
        elif not _is_same(before.written, settings):
            where, what = before.guard.core.place, _difference(before.written, settings)
            raise ConfigError(
                f"name must be one that is not taken, or come with the same values or replace=True: {where} "
                f"declares it with another {what}, got {name!r}"
            )
        return before.guard


def _new(made: Dependency, name: str, written: Settings | None, settings: Settings, place: str) -> Entry:
    guard = Guard(Core(name, settings.kit(), place), settings)
    made._guard = guard
    entry = _known[name] = Entry(made, written, settings, guard)
    return entry


def _is_same(one: Settings, other: Settings) -> bool:
    return not _difference(one, other)


def _difference(one: Settings, other: Settings) -> str:
    pairs = ((each.name, getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return ", ".join(name for name, this, that in pairs if not _is_equal(this, that))


def _is_equal(this: object, that: object) -> bool:
    """Whether two values are the same; what cannot be compared, as arrays cannot, is another value."""
    if this is that:
        return True
    try:
        return bool(this == that)
    except Exception:  # noqa: BLE001 - anybody's class
        return False


def view(guard: Guard, changes: dict[str, Any]) -> Guard:
    """Another view of a dependency."""
    with _lock:
        changed = replace(guard.settings, **changes)
        replace(changed, budget=None).check()  # the budget is the dependency's, and fits its own retry
        return Guard(guard.core, changed, {**guard.changes, **changes}, guard.key)


def at(guard: Guard, key: Any) -> Guard:
    """The view of one key."""
    with _lock:
        return Guard(guard.core, guard.settings, guard.changes, key)


def dependencies() -> dict[str, Dependency]:
    """The declared dependencies by name. A copy; thread and task safe."""
    with _lock:
        return {name: entry.made for name, entry in _known.items()}


def overlay(layers: Layers, make: Callable[[], Dependency]) -> list[str]:
    """Have these files say what goes over the declarations of code; gives the names that changed.

    All or nothing: raises ConfigError where the values of one cannot work, and then nothing changes. ``make`` makes
    the dependencies that no code declared.
    """
    with _lock:
        changes: dict[str, tuple[Settings | None, Settings]] = {}
        new: dict[str, tuple[Settings, str]] = {}
        places = _named(_layers, layers)
        for name, place in places.items():
            entry = _known.get(name)
            settings = _overlaid(name, None if entry is None else entry.written, layers)
            if entry is None:
                if settings is not None:
                    new[name] = settings, place
            else:  # what only a file declared and no file says any more stays as it was
                changes[name] = entry.written, settings or entry.written or entry.settings
        changed = _swap(changes, places)
        for name, (settings, place) in new.items():
            _new(make(), name, None, settings, place)
        _layers.clear()
        _layers.update(layers)
        return [*changed, *new]


def _named(*layered: Layers) -> dict[str, str]:
    """Every name that files speak of, and the last of the files."""
    return {name: place for layers in layered for place, names in layers.items() for name in names}


def _overlaid(name: str, written: Settings | None, layers: Layers) -> Settings | None:
    """What the files make of the values that code wrote; None: they say nothing."""
    settings: Settings | None = None
    for overrides in layers.values():
        if name in overrides:
            settings = overrides[name](settings or written)
    return settings


def layers() -> Layers:
    """The loaded files, and what each says. A copy."""
    with _lock:
        return dict(_layers)


def swap(name: str, settings: Settings) -> bool:
    """Give a dependency other values, keeping its state and calls in flight; False where there is none.

    Raises ConfigError where the values cannot work; then all stays as it was.
    """
    with _lock:
        changed = _swap({name: (settings, settings)})
    tell(changed)
    return bool(changed)


def _swap(
    changes: dict[str, tuple[Settings | None, Settings]], places: dict[str, str] | None = None
) -> list[str]:
    """Swap what code wrote and what calls go by, of several or of none; gives the names that changed."""
    plan: list[tuple[str, Entry, list[tuple[Guard, Settings]]]] = []
    for name, (written, settings) in changes.items():
        before = _known[name]
        entry = Entry(before.made, written, settings, before.guard)
        views = (
            [] if settings == before.settings else _views(before.guard, settings, (places or {}).get(name))
        )
        plan.append((name, entry, views))
    woken: list[Any] = []
    for name, entry, views in plan:
        _known[name] = entry
        if views:
            woken += entry.guard.core.change(entry.settings.kit())
        for guard, changed in views:
            guard.take(changed)
    for pause in woken:
        queueing.wake(pause)
    return [name for name, _, views in plan if views]


def tell(names: Iterable[str]) -> None:
    """Tell what a change of values made of the state of these dependencies; to be called without a lock."""
    for name in names:
        entry = _known.get(name)
        for state in () if entry is None else entry.guard.core.states():
            telling.news(state)


def _views(root: Guard, settings: Settings, place: str | None) -> list[tuple[Guard, Settings]]:
    """The dependency and all its views with their new values, checked."""
    settings.check()
    with root.core.lock:
        guards = [root, *(one for one in root.core.views if one is not root)]
    planned: list[tuple[Guard, Settings]] = []
    for guard in guards:
        changed = replace(settings, **guard.changes) if guard.changes else settings
        try:
            changed.check()
        except ConfigError as error:
            where = "" if place is None else f"{place}: "
            raise ConfigError(
                f"{where}dependencies.{root.core.name}, as seen by using({', '.join(guard.changes)}): {error}"
            ) from None
        planned.append((guard, changed))
    return planned


def known() -> Known:
    """All that is declared now, to be put back by ``restore``."""
    with _lock:
        found = Known(_known)
        found.layers = dict(_layers)
        return found


def restore(earlier: dict[str, Entry]) -> None:
    """Forget what was declared since, and put back what was declared then, with its values (for tests)."""
    with _lock:
        for name in _known.keys() - earlier.keys():
            del _known[name]
        for name, entry in earlier.items():
            if name not in _known or _known[name].guard is not entry.guard:
                _known[name] = entry
        _swap({name: (entry.written, entry.settings) for name, entry in earlier.items()})
        _layers.clear()
        _layers.update(getattr(earlier, "layers", {}))


def reset() -> None:
    """Have every dependency begin anew (for tests)."""
    for entry in known().values():
        entry.guard.core.forget()


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()
    for entry in _known.values():
        entry.guard.core.forked()


bypass.after_fork(_new_lock)
