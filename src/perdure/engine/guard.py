"""What stands behind a Dependency and its views: ``Core``, the shared state by key, and ``Guard``, one view.

Keys are bounded. When there are too many, the one that was used longest ago and has nothing to lose goes: nothing
in flight, breaker closed, gate open. Where none can go, new keys share the state of the dependency itself.
"""

from __future__ import annotations

from _thread import RLock
from collections import OrderedDict
from weakref import WeakSet

from perdure import clock
from perdure.engine import frames, logs
from perdure.engine.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.fused import Site
    from perdure.engine.kit import Kit
    from perdure.parts import Fallback, Hedge, Timeouts
    from perdure.policies import Retry
    from perdure.settings import Settings

__all__ = ["KEYS", "Core", "Guard"]

KEYS = 500
ANSWERS = 1000
"""So many last good values are kept per dependency."""

_NO_KEY = object()


class Core:
    """The state of a dependency, shared by all its views. Safe from any thread and task."""

    __slots__ = (
        *("answers", "crowded", "hosts", "kit", "lock", "name", "parts", "place", "root", "views", "warned"),
        "__weakref__",
    )

    def __init__(self, name: str, kit: Kit, place: str) -> None:
        self.name: str = name
        self.kit: Kit = kit
        self.place: str = place  # file and line of its declaration
        self.lock: RLock = RLock()
        self.root: State = State(name, None, kit)
        self.parts: OrderedDict[Any, State] = OrderedDict()
        self.answers: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self.hosts: set[str] = set()
        self.views: WeakSet[Guard] = WeakSet()
        self.warned: bool = False
        self.crowded: bool = False

    def part(self, key: Any) -> State:
        """The state of a key, made when it is first asked for."""
        with self.lock:
            found = self.parts.get(key)
            if found is not None:
                self.parts.move_to_end(key)
                return found
            if len(self.parts) < KEYS or self._make_room():
                found = self.parts[key] = State(self.name, key, self.kit, self._start(), self.root)
                return found
            was_crowded, self.crowded = self.crowded, True
        if not was_crowded:
            logs.warn(
                f"{self.name}: {KEYS} keys are busy or open; further ones share the state of the dependency"
            )
        return self.root

    def states(self) -> list[State]:
        """All states, that of the dependency itself first."""
        with self.lock:
            return [self.root, *self.parts.values()]

    def change(self, kit: Kit) -> list[Any]:
        """Take other values, keeping the state of all parts that are still there; gives the callers to wake."""
        from perdure.engine.changing import change

        with self.lock:
            self.kit = kit
            return [woken for state in self.states() for woken in change(state, kit)]

    def forked(self) -> None:
        """Have new locks in a forked child: a thread that held one is not there, nor is what it had in flight."""
        self.lock = RLock()
        here = frames.states_here()
        for state in (self.root, *self.parts.values()):
            state.forked(sum(one is state for one in here))

    def forget(self) -> None:
        """Begin anew, as after the declaration."""
        with self.lock:
            for state in self.states():
                state.renew()
            self.parts = OrderedDict((key, state) for key, state in self.parts.items() if state.pinned)
            self.answers.clear()
            self.hosts.clear()
            self.warned = self.crowded = False

    def _start(self) -> float | None:
        """The first tokens of a new key: drawn from the dependency's own bucket, and at least one."""
        bucket = self.root.bucket
        if bucket is None:
            return None
        with self.root.lock:
            bucket.tokens(self.root.total_ok())
            return max(1.0, bucket.draw_start(self.kit.start))

    def _make_room(self) -> bool:
        for key, state in self.parts.items():
            with state.lock:
                if state.is_idle:
                    del self.parts[key]
                    return True
        return False

    # Last good values

    def remember(self, what: Any, value: Any) -> None:
        """Keep a value for ``Fallback(last_good=)``."""
        with self.lock:
            self.answers[what] = (clock.monotonic(), value)
            self.answers.move_to_end(what)
            if len(self.answers) > ANSWERS:
                self.answers.popitem(last=False)

    def recall(self, what: Any, oldest: float) -> tuple[Any] | None:
        """A kept value of at most ``oldest`` seconds, in a tuple; None where there is none."""
        with self.lock:
            found = self.answers.get(what)
            if found is None or clock.monotonic() - found[0] > oldest:
                return None
            return (found[1],)

    def saw_host(self, host: str) -> None:
        """Warn once where one state serves several hosts: one of them being down would take the others with it."""
        if self.warned or host in self.hosts:
            return
        with self.lock:
            self.hosts.add(host)
            if self.warned or len(self.hosts) == 1:
                return
            self.warned = True
            both = ", ".join(sorted(self.hosts))
        logs.warn(
            f"{self.name} reaches several hosts ({both}) without a key: they share one state; give key="
        )


class Guard:
    """One view of a dependency, worked out for the engine. Immutable but for what a reload of its values swaps."""

    __slots__ = (
        *("changes", "core", "fallback", "hedge", "key", "key_of", "retry", "settings", "sites", "timeouts"),
        *("total", "__weakref__"),
    )

    def __init__(
        self, core: Core, settings: Settings, changes: dict[str, Any] | None = None, key: Any = _NO_KEY
    ) -> None:
        self.core: Core = core
        self.key: Any = key
        self.changes: dict[str, Any] = changes or {}  # what the view has otherwise than the dependency
        self.sites: WeakSet[Site] = WeakSet()
        self._go_by(settings)
        with core.lock:
            core.views.add(self)

    def _go_by(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.retry: Retry = settings.policy()
        self.timeouts: Timeouts | None = settings.timeouts
        self.total: float | None = None if settings.timeouts is None else settings.timeouts.total
        self.hedge: Hedge | None = settings.hedge
        self.fallback: Fallback | None = settings.fallback
        self.key_of: Callable[..., Any] | None = None if self.has_key else settings.key

    @property
    def has_key(self) -> bool:
        """Whether the view is of one key."""
        return self.key is not _NO_KEY

    def bounds(self, is_async: bool) -> bool | None:
        """Whether a fused wrapper has to publish an end; None: calls need more than the success path can hold.

        Of async functions that end is the attempt timeout, which interrupts; of sync ones, which nothing
        interrupts, it is the nearer of that and the end of the whole call.
        """
        retry, keeps = self.retry, self.fallback is not None and self.fallback.last_good is not None
        if (
            retry.reject is not None
            or retry.nested == "outer"
            or self.hedge is not None
            or keeps
            or self.key_of
        ):
            return None
        if self.total is None and retry.attempt_timeout is None:
            return False
        return None if is_async and self.total is not None else True

    @property
    def first_bound(self) -> float:
        """Seconds after which the first attempt of a sync function may find its time to be over."""
        bounds = (self.total, self.retry.attempt_timeout)
        return min((bound for bound in bounds if bound is not None), default=0.0)

    def take(self, settings: Settings) -> None:
        """Go by other values from the next call on, and so do the functions that were decorated."""
        self._go_by(settings)
        with self.core.lock:
            sites = tuple(self.sites)
        for site in sites:
            site.take()

    def decorates(self, site: Site) -> None:
        """Remember a function that was decorated."""
        with self.core.lock:
            self.sites.add(site)

    def fixed_state(self) -> State:
        """The state of all calls of a view without a key function."""
        return self.core.part(self.key) if self.has_key and self.key is not None else self.core.root

    def state_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> State:
        """The state of a call; where the key function raises, that of the dependency itself."""
        if self.key_of is None:
            return self.fixed_state()
        from perdure.engine.hooks import ask

        key = ask(self.key_of, "key=", *args, **kwargs)
        if key is None:
            return self.core.root
        try:
            return self.core.part(key)
        except Exception as error:  # noqa: BLE001 - it cannot be hashed, or not be compared
            logs.complain(self.key_of, "key=", error)
            return self.core.root
