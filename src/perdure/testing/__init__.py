"""Tools for tests: a virtual clock, scripted functions, no waits, recorded events.

Nothing here needs pytest; with pytest installed, the plugin offers the same as fixtures and puts back what a
test changed. See ``docs/testing.md``. Names are loaded when first used, so that the plugin costs a test run
that never touches perdure nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.testing.modes import disabled, no_waits, record_events, reset
    from perdure.testing.script import Script, took
    from perdure.testing.virtual import VirtualClock

__all__ = [
    "Script",
    "VirtualClock",
    "disabled",
    "no_waits",
    "record_events",
    "reset",
    "took",
]

_HOMES = {
    "modes": ("disabled", "no_waits", "record_events", "reset"),
    "script": ("Script", "took"),
    "virtual": ("VirtualClock",),
}


def __getattr__(name: str) -> object:
    import importlib

    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
