"""What happened, told to whoever listens.

Names are dotted and stable: ``call.start``, ``call.end``, ``attempt.start``, ``attempt.end``,
``retry.scheduled``, ``retry.suppressed``, ``deadline.exceeded`` and, from later parts, those of breakers,
gates, limits, hedges, fallbacks and budgets. An event is made only when someone listens.
"""

from __future__ import annotations

from _thread import RLock, get_ident
from dataclasses import dataclass, field, fields

from perdure import bypass, clock
from perdure.colour import is_coroutine_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.faults import Fault

    Listeners = tuple[Callable[["Event"], object], ...]

__all__ = ["Event", "emit", "listen"]


SEVERITIES = ("debug", "info", "warning", "error")


def _wall() -> float:
    return clock.wall()  # looked up when the event is made: tests replace it


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a call or a dependency.

    ``name`` is the dotted name, ``severity`` one of debug, info, warning, error; ``attempt`` counts from 1,
    ``delay`` is in seconds, ``reason`` is a ``StopReason`` value or a phrase, ``at`` is wall-clock seconds
    since 1970. Fields that do not apply are None. Immutable: safe to keep and to share.
    """

    name: str
    severity: str = "info"
    operation: str = ""
    dependency: str | None = None
    key: str | None = None
    attempt: int | None = None
    fault: Fault | None = None
    delay: float | None = None
    reason: str | None = None
    call_id: str | None = None
    error: str | None = None
    elapsed: float | None = None
    at: float = field(default_factory=_wall)

    def as_dict(self) -> dict[str, object]:
        """The fields that apply, ready for JSON (a fault becomes its kind, hint and why)."""
        shown: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "fault" and value is not None:
                value = {"kind": value.kind.value, "hint": value.hint, "why": value.why}
            if value is not None:
                shown[one.name] = value
        return shown


listeners: Listeners = ()
_lock = RLock()
_complained: set[int] = set()
_telling: set[int] = set()


def listen(listener: Callable[[Event], object]) -> Callable[[], None]:
    """Call ``listener(event)`` for every event from now on; returns the function that stops it.

    It is called in the thread or task where the thing happened, so keep it short. A listener that raises is
    logged once and changes nothing; guarded calls that it makes itself are not told of. Calls take the observed
    path, slower than the bare one, as long as someone listens.

    Raises ConfigError for a listener that is not callable. Safe from any thread or task.
    """
    given: object = listener
    if not callable(given) or is_coroutine_function(given):
        from perdure.errors import ConfigError

        raise ConfigError(f"listener must be a plain callable that takes an event, got {given!r}")
    entry = _Listener(listener)
    _change(lambda before: (*before, entry))

    def stop() -> None:
        _change(lambda before: tuple(one for one in before if one is not entry))

    return stop


class _Listener:
    """One registration, so that the same function can listen twice and stop once."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[Event], object]) -> None:
        self.call = call

    def __call__(self, event: Event) -> object:
        return self.call(event)


def emit(event: Event) -> None:
    """Tell every listener; what a listener raises is reported once and goes no further."""
    thread = get_ident()
    if thread in _telling:  # a listener that makes guarded calls itself is not told of those
        return
    _telling.add(thread)
    try:
        for listener in listeners:
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - a listener never changes what happens to a call
                _complain(listener, error)
    finally:
        _telling.discard(thread)


def restore(earlier: Listeners) -> None:
    """Put back the listeners of an earlier moment (for tests)."""
    _change(lambda _: earlier)


def clear() -> None:
    """Forget all listeners (for tests)."""
    _complained.clear()
    _change(lambda _: ())


def _change(to: Callable[[Listeners], Listeners]) -> None:
    global listeners  # noqa: PLW0603 - replaced as a whole, so readers need no lock
    with _lock:
        listeners = to(listeners)
        bypass.set_reason("listeners", on=bool(listeners))


def _complain(listener: Callable[[Event], object], error: Exception) -> None:
    if id(listener) in _complained:
        return
    _complained.add(id(listener))
    from logging import getLogger

    getLogger("perdure").warning("a listener raised and was ignored: %r", error, exc_info=error)


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()


bypass.after_fork(_new_lock)
