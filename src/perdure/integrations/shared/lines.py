"""The guarded forms of sending a request: one for each method, key and safety, made when first needed.

A Dependency keyed by host has a state per host, and a function decorated for that state is what makes a request
that succeeds cost next to nothing. So these are kept, and given up together when there are too many: a crawler
meets more hosts than anybody wants to remember.
"""

from __future__ import annotations

from types import FunctionType

from perdure.dependency import Dependency, View
from perdure.errors import ConfigError
from perdure.faults import Safety
from perdure.integrations.shared.answers import Judge
from perdure.integrations.shared.options import UNSET
from perdure.policies import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.integrations.shared.exchange import Exchange
    from perdure.integrations.shared.options import Options, Override
    from perdure.parts import Timeouts

__all__ = ["KEPT", "Line", "Lines"]

KEPT = 250
"""So many lines are kept."""

_SINGLE = Retry(attempts=1, deadline=None)
_NOT_FOR_RETRY = ("hedge", "fallback")


class Line:
    """One way of sending: ``quick`` takes the request, ``full`` also its exchange and its one-shot body, if any."""

    __slots__ = ("full", "quick", "safety")

    def __init__(self, quick: Callable[..., Any], full: Callable[..., Any], safety: Safety) -> None:
        self.quick: Callable[..., Any] = quick
        self.full: Callable[..., Any] = full
        self.safety: Safety = safety


class Lines:
    """All lines of one transport, adapter or middleware. Safe from any thread and task."""

    __slots__ = (
        "_full",
        "_judge",
        "_judged",
        "_lines",
        "_pinned",
        "_quick",
        "guard",
        "kind",
        "options",
        "policy",
    )

    def __init__(
        self,
        policy: Any,
        options: Options,
        quick: Callable[..., Any],
        full: Callable[..., Any],
        kind: type,
    ) -> None:
        if not isinstance(policy, (Retry, Dependency, View)):
            raise ConfigError(f"policy must be a perdure.Dependency or a perdure.Retry, got {policy!r}")
        self.kind: type = kind  # of the client's responses
        self.policy: Any = policy
        self.options: Options = options
        self.guard: Any = None if isinstance(policy, Retry) else policy._guard
        self._quick = quick
        self._full = full
        self._lines: dict[tuple[str, Any, Safety], Line] = {}
        self._pinned: list[Any] = []
        self._judged: Retry | None = None
        self._judge: Judge | None = None

    @property
    def retry(self) -> Retry:
        """The Retry that requests go by, as it is now: a reload may have changed it."""
        return self.policy if self.guard is None else self.guard.retry  # type: ignore[no-any-return] # its Retry

    @property
    def timeouts(self) -> Timeouts | None:
        """The timeouts of the dependency, as they are now."""
        return None if self.guard is None else self.guard.timeouts

    @property
    def is_timed(self) -> bool:
        """Whether an attempt has a bound of its own, which the client has to be told."""
        if self.guard is None:
            return self.policy.attempt_timeout is not None
        return self.guard.timeouts is not None or self.guard.retry.attempt_timeout is not None

    @property
    def judge(self) -> Judge:
        """Says which answers are failures."""
        retry, judge = self.retry, self._judge
        if judge is None or retry is not self._judged:
            judge = self._judge = Judge(retry, self.options)
            self._judged = retry
        return judge

    def judge_for(self, override: Override | None) -> Judge:
        """The same for one request that says otherwise."""
        if override is None:
            return self.judge
        retry = override.views.get("retry", self.retry) or _SINGLE
        return Judge(retry, self.options.changed(override))

    def key(self, request: Any, origin: str, override: Override | None = None) -> Any:
        """The part of the dependency that a request goes to; None: the dependency as it is."""
        if self.guard is None or self.guard.has_key:
            return None
        chosen = self.options.key if override is None or override.key is UNSET else override.key
        if chosen == "host" and self.guard.key_of is None:
            return origin
        if self.guard.key_of is not None and chosen in ("host", None):
            chosen = self.guard.key_of
        if not callable(chosen):
            return chosen
        from perdure.engine.hooks import ask

        return ask(chosen, "key=", request)

    def line(self, method: str, key: Any, origin: str, safety: Safety) -> Line:
        """The line of such requests."""
        at = (method, key if key is not None else origin, safety)
        try:
            found = self._lines.get(at)
        except TypeError:
            raise ConfigError(f"key must give a value that can be hashed, got {key!r}") from None
        if found is None:
            if len(self._lines) >= KEPT:
                self._forget()
            found = self._lines[at] = self._made(f"{method} {origin}", key, safety)
        return found

    def view(self, key: Any, safety: Safety, override: Override | None = None) -> Any:
        """The policy as such requests see it."""
        changes: dict[str, Any] = {} if override is None else override.views
        if self.guard is None:
            return self._changed_retry(changes, safety)
        if "safety" not in changes and self.guard.retry.safety is None:
            changes["safety"] = safety
            if safety is Safety.UNSAFE and self.guard.hedge is not None:
                changes.setdefault("hedge", None)  # it sends twice what may be sent once
        # Where the key function gave none, it is not asked again: the dependency itself is meant.
        keyed = key is not None or (self.guard.key_of is not None and not self.guard.has_key)
        view = self.policy.at(key) if keyed else self.policy
        return view.using(**changes) if changes else view

    def send(self, exchange: Exchange, method: str, origin: str, safety: Safety) -> Any:
        """Send one request; the response, or what is to be awaited for it."""
        override, once = exchange.override, exchange.source.once
        key = self.key(exchange.request, origin, override)
        hedges = once is not None and self.guard is not None and self.guard.hedge is not None
        if override is None and not hedges:
            return self.line(method, key, origin, safety).full(exchange.request, exchange, once)
        # It says otherwise, or its body can be sent once, and a copy would take part of it.
        view = self.view(key, safety, override)
        if once is not None and self.guard is not None and view._guard.hedge is not None:
            view = view.using(hedge=None)
        return view.call(_named(self._full, f"{method} {origin}"), exchange.request, exchange, once)

    def _changed_retry(self, changes: dict[str, Any], safety: Safety) -> Retry:
        for name in _NOT_FOR_RETRY:
            if changes.get(name) is not None:
                raise ConfigError(f"{name} needs a perdure.Dependency as the policy, got a Retry")
        retry: Retry = changes.get("retry", self.policy) or _SINGLE
        chosen = changes.get("safety") or retry.safety or safety
        return retry if retry.safety is chosen else retry.replace(safety=chosen)

    def _made(self, name: str, key: Any, safety: Safety) -> Line:
        view = self.view(key, safety)
        if key is not None:
            state = view._guard.fixed_state()
            if not state.pinned:
                self._pinned.append(state)
        return Line(view(_named(self._quick, name)), view(_named(self._full, name)), safety)

    def _forget(self) -> None:
        """Begin anew; the states may go then, if they have nothing to lose."""
        self._lines = {}
        pinned, self._pinned = self._pinned, []
        for state in pinned:
            state.pinned = False


def _named(send: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A copy of a function under the name that logs and events show."""
    if not isinstance(send, FunctionType):
        return send
    twin = FunctionType(send.__code__, send.__globals__, name, send.__defaults__, send.__closure__)
    twin.__qualname__, twin.__module__ = name, ""
    vars(twin)["__perdure_shown__"] = 1  # a fallback gets the request alone
    return twin
