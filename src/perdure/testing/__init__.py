"""Tools for tests: a virtual clock, scripted functions, no waits, recorded events.

Nothing here needs pytest; with pytest installed, the plugin offers the same as fixtures and puts back what a
test changed. See ``docs/testing.md``.
"""

from __future__ import annotations

from perdure.testing.modes import disabled, no_waits, record_events, reset
from perdure.testing.script import Script, took
from perdure.testing.virtual import VirtualClock

__all__ = ["Script", "VirtualClock", "disabled", "no_waits", "record_events", "reset", "took"]
