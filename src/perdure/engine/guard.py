"""What stands behind a Dependency and its views: ``Core``, the shared state by key, and ``Guard``, one view.

Keys are bounded. When there are too many, the one that was used longest ago and has nothing to lose goes: nothing
in flight, breaker closed, gate open. Where none can go, new keys share the state of the dependency itself.
"""

from __future__ import annotations

from _thread import RLock
from collections import OrderedDict
from weakref import WeakSet

from perdure import clock
from perdure.engine import logs
from perdure.engine.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.kit import Kit
    from perdure.parts import Fallback, Hedge, Timeouts
    from perdure.policies import Retry

__all__ = ["KEYS", "Core", "Guard"]

KEYS = 500
ANSWERS = 1000
"""So many last good values are kept per dependency."""

_NO_KEY = object()


class Core:
    """The state of a dependency, shared by all its views. Safe from any thread and task."""

    __slots__ = (
        *("answers", "crowded", "hosts", "kit", "lock", "name", "parts", "place", "root", "warned"),
        "__weakref__",
    )

    def __init__(self, name: str, kit: Kit, place: str) -> None:
        self.name = name
        self.kit = kit
        self.place = place  # file and line of its declaration
        self.lock = RLock()
        self.root = State(name, None, kit)
        self.parts: OrderedDict[Any, State] = OrderedDict()
        self.answers: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self.hosts: set[str] = set()
        self.warned = self.crowded = False

    def part(self, key: Any) -> State:
        """The state of a key, made when it is first asked for."""
        with self.lock:
            found = self.parts.get(key)
            if found is not None:
                self.parts.move_to_end(key)
                return found
            if len(self.parts) >= KEYS and not self._make_room():
                return self.root
            found = self.parts[key] = State(self.name, key, self.kit, self._start(), self.root)
            return found

    def states(self) -> list[State]:
        """All states, that of the dependency itself first."""
        with self.lock:
            return [self.root, *self.parts.values()]

    def change(self, kit: Kit) -> None:
        """Take other values, keeping the state of all parts that are still there."""
        with self.lock:
            self.kit = kit
            for state in self.states():
                state.change(kit)

    def forked(self) -> None:
        """Have new locks in a forked child: a thread that held one is not there, nor is what it had in flight."""
        self.lock = RLock()
        for state in (self.root, *self.parts.values()):
            state.forked()

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
                    state.retire()
                    del self.parts[key]
                    return True
        if not self.crowded:
            self.crowded = True
            logs.warn(
                f"{self.name}: {KEYS} keys are busy or open; further ones share the state of the dependency"
            )
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
        self.hosts.add(host)
        if len(self.hosts) > 1:
            self.warned = True
            both = ", ".join(sorted(self.hosts))
            logs.warn(
                f"{self.name} reaches several hosts ({both}) without a key: they share one state; give key="
            )


class Guard:
    """One view of a dependency, worked out for the engine. Immutable but for what ``reload`` swaps."""

    __slots__ = ("core", "fallback", "hedge", "key", "key_of", "retry", "sites", "timeouts", "total")

    def __init__(
        self,
        core: Core,
        retry: Retry,
        timeouts: Timeouts | None,
        hedge: Hedge | None,
        fallback: Fallback | None,
        key_of: Callable[..., Any] | None,
        key: Any = _NO_KEY,
    ) -> None:
        self.core = core
        self.retry = retry
        self.timeouts = timeouts
        self.total = None if timeouts is None else timeouts.total
        self.hedge = hedge
        self.fallback = fallback
        self.key_of = key_of if key is _NO_KEY else None
        self.key = key
        self.sites: WeakSet[Any] = WeakSet()

    @property
    def has_key(self) -> bool:
        """Whether the view is of one key."""
        return self.key is not _NO_KEY

    @property
    def is_plain(self) -> bool:
        """Whether calls may take the success path as far as this view is concerned."""
        keeps = self.fallback is not None and self.fallback.last_good is not None
        return (
            self.retry.is_plain
            and self.total is None
            and self.hedge is None
            and not keeps
            and not self.key_of
        )

    def take(self, fresh: Guard) -> None:
        """Go by the values of another guard of the same dependency from the next call on."""
        self.retry, self.timeouts, self.total = fresh.retry, fresh.timeouts, fresh.total
        self.hedge, self.fallback, self.key_of = fresh.hedge, fresh.fallback, fresh.key_of
        for site in tuple(self.sites):
            site.policy = fresh.retry

    def fixed_state(self) -> State:
        """The state of all calls of a view without a key function."""
        return self.core.part(self.key) if self.has_key else self.core.root

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
        except TypeError as error:  # it cannot be hashed
            logs.complain(self.key_of, "key=", error)
            return self.core.root
