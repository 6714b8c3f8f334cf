"""``Dependency``: one external thing, declared once, and every call to it protected."""

from __future__ import annotations

import sys

from perdure import registry
from perdure.errors import ConfigError
from perdure.parts import Breaker, Budget, Bulkhead, Fallback, Gate, Hedge, RateLimit, Timeouts
from perdure.policies import Retry, decorate
from perdure.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import Any, ParamSpec, TypeVar, overload

    from perdure.core.explain import Explanation
    from perdure.engine.blocks import Attempt
    from perdure.engine.guard import Guard
    from perdure.faults import Safety
    from perdure.outcome import Outcome

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F", bound=Callable[..., Any])
else:
    from perdure.bypass import overload

__all__ = ["Dependency"]

DEFAULT_RETRY = Retry()
DEFAULT_BUDGET = Budget()
DEFAULT_GATE = Gate()


class _View:
    """What a dependency and its views have in common: all ways to call it."""

    __slots__ = ("_guard",)

    _guard: Guard

    @property
    def name(self) -> str:
        """The name of the dependency."""
        return self._guard.core.name

    @property
    def key(self) -> Any:
        """The key of a view made by ``at()``; None otherwise."""
        return self._guard.key if self._guard.has_key else None

    def __call__(self, fn: F, /) -> F:
        """Guard a function, method or callable object: same parameters, name, docs, type and colour.

        Works on ``def``, ``async def``, generators (until their first item), methods, classmethods and
        staticmethods, partials and callable objects. Raises ConfigError for what cannot be called. The result is
        as thread and task safe as ``fn``.
        """
        from perdure.engine.fused import wrap_guarded

        return decorate(self, fn, lambda one: wrap_guarded(self._guard, one, self))  # type: ignore[no-any-return]

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``fn`` with these arguments, guarded; for an async ``fn``, returns the coroutine to await.

        Raises what the last attempt raised, a Refused where none was made, or gives the fallback. Thread and task
        safe.
        """
        from perdure.engine import undecorated

        return undecorated.call(self._guard, fn, args, kwargs)  # type: ignore[no-any-return] # what fn returns

    @overload
    def outcome(  # type: ignore[overload-overlap] # a coroutine function is a callable too
        self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Outcome[R]]: ...
    @overload
    def outcome(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]: ...
    def outcome(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``fn`` and return an Outcome instead of raising; for an async ``fn``, a coroutine that does.

        Where a fallback gave the value it is ok, and ``stop`` says why the call itself ended. BaseExceptions that
        are not Exceptions still pass. Thread and task safe.
        """
        from perdure.engine import undecorated

        return undecorated.outcome(self._guard, fn, args, kwargs)

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts for a block: ``for attempt in payments: with attempt: ...``; each loop is a fresh call.

        A key comes from ``at()`` there, and a fallback is not used: the block's last error comes out.
        """
        from perdure.engine.blocks import Loop

        return Loop(self._guard)

    def __aiter__(self) -> AsyncIterator[Attempt]:
        """Attempts for a block in async code: ``async for attempt in payments: with attempt: ...``."""
        from perdure.engine.blocks import AsyncLoop

        return AsyncLoop(self._guard)

    def using(
        self,
        *,
        retry: Retry | None = ...,  # type: ignore[assignment] # stands for "as it is"
        timeouts: Timeouts | None = ...,  # type: ignore[assignment]
        safety: Safety | None = ...,  # type: ignore[assignment]
        hedge: Hedge | None = ...,  # type: ignore[assignment]
        fallback: Fallback | None = ...,  # type: ignore[assignment]
        on_exhausted: Callable[[Outcome[Any]], object] | None = ...,  # type: ignore[assignment]
    ) -> View:
        """A view with other options and the same state: breaker, budget, gate and limits are the dependency's.

        ``safety`` says whether these operations may be sent twice. Raises ConfigError for options that cannot
        work together. Thread and task safe.
        """
        given: dict[str, Any] = {
            "retry": retry,
            "timeouts": timeouts,
            "safety": safety,
            "hedge": hedge,
            "fallback": fallback,
            "on_exhausted": on_exhausted,
        }
        changes = {name: value for name, value in given.items() if value is not Ellipsis}
        return View(registry.view(self._guard, changes))

    def at(self, key: Any) -> View:
        """The part of the dependency with this key (host, shard, model, ...), which has state of its own.

        None is the dependency itself, as for a ``key`` function that gives None.

        At most 500 keys are kept; busy, open and isolated ones always are. Raises ConfigError for a key that
        cannot be hashed. Thread and task safe.
        """
        try:
            hash(key)
        except TypeError:
            raise ConfigError(f"key must be a value that can be hashed, got {key!r}") from None
        return View(registry.at(self._guard, key))

    def snapshot(self) -> dict[str, Any]:
        """What is going on, ready for JSON: state, counters, budget, gate, limits, latencies, last errors, keys.

        A number that nothing needs is not counted and None: ``attempts`` and ``succeeded`` where all there is is a
        breaker that counts failures in a row, ``in_flight`` where moreover it has no ramp.

        Durations are seconds and ``at`` is seconds since 1970. Consistent within each key and cheap: it takes each
        lock once. Thread and task safe.
        """
        from perdure.engine.snapshots import snapshot

        return snapshot(self._guard)

    def isolate(self, reason: str, *, owner: str = "operator", expires: float | None = None) -> None:
        """Refuse all calls (``Isolated``) until ``restore``, or for ``expires`` seconds.

        Each owner isolates for itself: the dependency is back when all have restored it. On a view of a key, that
        key only. Raises ConfigError for an empty reason or owner. Thread and task safe.
        """
        from perdure.engine.operators import isolate

        isolate(self._guard, reason, owner, expires)

    def restore(self, owner: str | None = None) -> None:
        """Take back the isolation by ``owner``; None: of all owners. Thread and task safe."""
        from perdure.engine.operators import restore

        restore(self._guard, owner)

    def reset(self) -> None:
        """Close the breaker, open the gate and fill the budget by hand; isolations stay. Thread and task safe."""
        from perdure.engine.operators import reset

        reset(self._guard)

    def to_dict(self) -> dict[str, Any]:
        """The breaker's state and that of all keys, ready for JSON, for a warm start by ``from_dict``.

        Thread and task safe.
        """
        from perdure.engine.operators import saved

        return saved(self._guard.core)

    def from_dict(self, data: dict[str, Any]) -> None:
        """Take over what ``to_dict`` gave, in this process or an earlier one.

        What cannot be understood is left out with one log line. Thread and task safe.
        """
        from perdure.engine.operators import load

        load(self._guard.core, data)

    def explain(self) -> Explanation:
        """The plan as text, dict and JSON: delays, limits, worst cases, and warnings about anti-patterns."""
        from perdure.plans import explain_dependency

        return explain_dependency(self._guard)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            f"the dependency {self.name!r} has state of this process; declare it anew in the other one"
        )


class View(_View):
    """A dependency seen with other options or one key; the state is shared. Made by ``using`` and ``at``."""

    __slots__ = ()

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def __repr__(self) -> str:
        key = f".at({self.key!r})" if self._guard.has_key else ""
        return f"<view of Dependency({self.name!r}){key}>"


class Dependency(_View):
    """One external thing that can fail by itself: an API, a database, a model, another service.

    - ``name``: in logs, events, metrics and errors. The same name with the same values shares the state; with
      other values it is an error, unless ``replace=True``.
    - ``retry`` (``Retry()``): its deadline, where unset, is ``Timeouts.total`` or 30 s. None: single attempts.
    - ``timeouts`` (None): a Timeouts.
    - ``budget`` (``Budget()``), ``gate`` (``Gate()``): None switches one off.
    - ``breaker``, ``rate_limit``, ``bulkhead``, ``hedge``, ``fallback`` (None): off unless given. A breaker turns
      partial failures into total ones, so it is not there by itself.
    - ``safety`` (None): whether operations may be sent twice; None: by the request that an error carries, else yes.
    - ``on_exhausted`` (None): called with the Outcome of a call that was given up, for dead letters and alerts.
    - ``key`` (None): a function of the call's arguments; each key has a state of its own.

    Order, from outside: fallback, end, gate, retry or hedge (budget), breaker, rate limit, bulkhead, attempt
    timeout, the call. Places are free while a call waits between attempts; a local refusal is never a failure of
    the dependency. Use it as decorator, ``call``, ``outcome``, or over a block, as a Retry.

    Raises ConfigError for values that cannot work or contradict each other. Thread and task safe; forked children
    begin with a copy of the state.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        *,
        retry: Retry | None = DEFAULT_RETRY,
        timeouts: Timeouts | None = None,
        budget: Budget | None = DEFAULT_BUDGET,
        gate: Gate | None = DEFAULT_GATE,
        breaker: Breaker | None = None,
        rate_limit: RateLimit | None = None,
        bulkhead: Bulkhead | None = None,
        hedge: Hedge | None = None,
        fallback: Fallback | None = None,
        safety: Safety | None = None,
        on_exhausted: Callable[[Outcome[Any]], object] | None = None,
        key: Callable[..., Any] | None = None,
        replace: bool = False,
    ) -> None:
        settings = Settings(
            retry=retry,
            timeouts=timeouts,
            budget=budget,
            gate=gate,
            breaker=breaker,
            rate_limit=rate_limit,
            bulkhead=bulkhead,
            hedge=hedge,
            fallback=fallback,
            safety=safety,
            on_exhausted=on_exhausted,
            key=key,
        )
        self._guard = registry.declare(self, name, settings, sys._getframe(1), replace=replace)

    def __repr__(self) -> str:
        return f"Dependency({self.name!r}{self._guard.settings.shown()})"


def empty() -> Dependency:
    """One that has no guard yet, for those that files declare."""
    return object.__new__(Dependency)
