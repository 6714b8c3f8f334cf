"""Decorated functions: what stands behind a wrapper, and how it comes by its form and changes it later.

The forms themselves are in ``perdure.engine.templates``, with what they look like and why.
"""

from __future__ import annotations

import time
from _weakref import ref
from functools import update_wrapper
from types import CodeType, FunctionType

from perdure import clock
from perdure.bypass import NAMESPACE, OPEN_ENDS
from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, colour, is_awaitable
from perdure.engine.clients import look_at
from perdure.engine.source import ANY, Form, Parameters, maker, parameters_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.engine.run import Run
    from perdure.policies import Retry

PROBATION = 100
"""Plain results in a row after which a sync function is taken to return no awaitables."""


class Site:
    """A decorated function: what its wrapper hands to the engine."""

    __slots__ = (
        *("__weakref__", "fn", "form", "guard", "is_quick", "limit", "plain", "policy", "queue", "settled"),
        *("bound", "state", "wrapper"),
    )

    def __init__(self, policy: Retry, fn: Callable[..., Any], guard: Guard | None = None) -> None:
        self.policy: Retry = policy
        self.fn: Callable[..., Any] = fn
        self.guard: Any = guard  # the view of a dependency; None: a bare Retry
        self.state: Any = None  # and its state, where that does not depend on the call
        self.limit: Any = policy.attempt_timeout
        self.bound: float = 0.0 if guard is None else guard.first_bound
        self.queue: Any = None  # of the timers of its attempts, on the loop that it was last called on
        self.is_quick: bool = False
        self.plain: int = 0
        # What the form without a look is made from; of a dependency also its colour, and the form it has.
        self.settled: tuple[Parameters, Form] | None = None
        self.form: tuple[str, Parameters, Form] | None = None
        self.wrapper: Callable[[], FunctionType | None] | None = None

    def new_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
        """A call of it, on the general path."""
        if self.guard is None:
            from perdure.engine.run import Run

            return Run(self.policy, self.fn, args, kwargs)
        from perdure.engine.guarded import GuardedRun

        return GuardedRun(self.guard, self.fn, args, kwargs, state=self.state)

    def take(self) -> None:
        """Go by the values that its dependency has by now; calls in flight end in the form they began in."""
        guard, retry = self.guard, self.guard.retry
        self.policy, self.queue = retry, None
        self.limit = self.limit if retry.attempt_timeout is None else retry.attempt_timeout
        self.bound = guard.first_bound or self.bound
        if guard.key_of is not None:
            self.state = None
        elif self.state is None:
            self.state = guard.fixed_state()
        wrapper = None if self.wrapper is None else self.wrapper()
        if wrapper is not None and self.form is not None:
            _refit(self, wrapper, *self.form)


def wrap(policy: Retry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The guarded form of ``fn``: same parameters, name, docs and colour."""
    look_at(fn, policy.attempts)
    wrapper: Any = _generate(Site(policy, fn), fn, colour(fn))
    _dress(wrapper, fn)
    wrapper.__perdure__ = policy
    return wrapper  # type: ignore[no-any-return] # it has fn's own parameters


def wrap_guarded(guard: Guard, fn: Callable[..., Any], shown: object) -> Callable[..., Any]:
    """The form of ``fn`` that calls a dependency; ``shown`` is what the wrapper gives as its policy."""
    look_at(fn, guard.retry.attempts)
    site = Site(guard.retry, fn, guard)
    if guard.key_of is None:
        site.state = guard.fixed_state()
        site.state.pinned = site.state.pinned or guard.has_key
    wrapper: Any = _generate(site, fn, colour(fn))
    _dress(wrapper, fn)
    wrapper.__perdure__ = shown
    guard.decorates(site)
    return wrapper  # type: ignore[no-any-return] # it has fn's own parameters


def _generate(site: Site, fn: Callable[..., Any], kind: str) -> FunctionType:
    parameters = parameters_of(fn.__code__) if isinstance(fn, FunctionType) else ANY
    form = _form(site, kind)
    wrapper = maker(parameters, form)(*_closure(site, form))
    if isinstance(fn, FunctionType) and parameters is not ANY:
        wrapper.__defaults__ = fn.__defaults__
        wrapper.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    elif isinstance(fn, FunctionType):  # the catch-all form of a function that has parameters of its own
        from inspect import signature

        wrapper.__signature__ = signature(fn)  # type: ignore[attr-defined] # inspect looks for it
    wrapper.__code__ = _named_after(fn, wrapper.__code__)
    if form.name == "looking":
        site.wrapper, site.settled = ref(wrapper), (parameters, form)
    if site.guard is not None and kind not in {GENERATOR, ASYNC_GENERATOR}:
        site.wrapper, site.form = ref(wrapper), (kind, parameters, form)
    return wrapper


def _refit(site: Site, wrapper: FunctionType, kind: str, parameters: Parameters, before: Form) -> None:
    """Give a wrapper the form that its dependency asks for by now; all forms have the same closure."""
    site.is_quick = False
    form = _form(site, kind)
    if form == before:
        return
    site.form = kind, parameters, form
    site.plain, site.settled = 0, (parameters, form) if form.name == "looking" else None
    fresh = maker(parameters, form)(*_closure(site, form))
    if site.state is not None:
        for cell, new in zip(wrapper.__closure__ or (), fresh.__closure__ or (), strict=True):
            cell.cell_contents = new.cell_contents
    wrapper.__code__ = _named_after(site.fn, fresh.__code__)


def _form(site: Site, kind: str) -> Form:
    """The form that the policy, and the dependency if there is one, ask for."""
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        return Form(kind)
    if site.guard is not None:
        return _guarded_form(site, kind == ASYNC)
    if kind == ASYNC and site.policy.is_timed:
        return Form("timed", reads_clock=True)
    if site.policy.is_plain:
        name = "async" if kind == ASYNC else "looking"
        return Form(name, reads_clock=site.policy.deadline is not None)
    return Form("general async" if kind == ASYNC else "general")


def _guarded_form(site: Site, is_async: bool) -> Form:
    guard = site.guard
    bounded = guard.bounds(is_async)
    if bounded is None or not site.state.kit.is_fusable:
        return Form("dependent general async" if is_async else "dependent general")
    site.is_quick = not bounded
    kit, timed = site.state.kit, bounded or site.policy.deadline is not None
    ticks = kit.needs_ticks or (timed and kit.has_window)
    return Form(
        "async" if is_async else "looking",
        is_guarded=True,
        reads_clock=timed,
        ticks=ticks,
        tocks=kit.has_window and not ticks,
        counts_flight=kit.counts_flight,
        counts_successes=kit.counts_successes,
        is_bounded=bounded,
        is_quick=kit.breaker_rule is not None and guard.fallback is None and guard.retry.on_exhausted is None,
        ceiling=kit.ceiling,
    )


def _closure(site: Site, form: Form) -> tuple[Any, ...]:
    if site.guard is None or form.name in {GENERATOR, ASYNC_GENERATOR}:
        return site.fn, site
    state = site.guard.core.root if site.state is None else site.state
    return site.fn, site, state, state.flight


def look_guarded(
    site: Site,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    start: float | None,
    lease: Any,
    value: Any,
) -> Any:
    """Look at the first results of a sync function that calls a dependency."""
    if is_awaitable(value):
        site.settled = None
        from perdure.engine.dependent import adopt

        site.state.flight.append(None)  # it goes on
        return adopt(site, args, kwargs, start, lease, value)
    lease.ok += 1
    site.plain += 1
    if site.plain >= PROBATION:
        _settle(site)
    return value


def tock(state: Any) -> None:
    """Look at the time after every so many calls: where a tick is due, the next call goes the long way."""
    if clock.monotonic() >= state.due:
        state.fast = None


def look(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], start: float | None, value: Any) -> Any:
    """Look at the first results of a sync function: an awaitable goes to the async driver."""
    if is_awaitable(value):
        site.settled = site.wrapper = None
        from perdure.engine.aio import adopt
        from perdure.engine.run import Run

        return adopt(Run(site.policy, site.fn, args, kwargs, start, 1), value)
    site.plain += 1
    if site.plain >= PROBATION:
        _settle(site)
    return value


def _settle(site: Site) -> None:
    """Take the form that does not look at results."""
    wrapper = None if site.wrapper is None else site.wrapper()
    settled = site.settled  # another thread may be here too
    if wrapper is not None and settled is not None:
        parameters, looking = settled
        form = looking._replace(name="sync")
        plain = maker(parameters, form)(*_closure(site, form))
        wrapper.__code__ = _named_after(site.fn, plain.__code__)
    site.settled = None
    if site.guard is None:
        site.wrapper = None


def _named_after(fn: Callable[..., Any], code: CodeType) -> CodeType:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return code.replace(co_name=name, co_qualname=getattr(fn, "__qualname__", None) or name)


def _dress(wrapper: FunctionType, fn: Callable[..., Any]) -> None:
    """Name, module, docs, annotations and ``__wrapped__``; callable objects lend those of their class."""
    update_wrapper(wrapper, fn)
    if not isinstance(fn, FunctionType) and not hasattr(fn, "__name__"):
        wrapper.__name__ = type(fn).__name__
        wrapper.__qualname__ = type(fn).__qualname__


def _stand_ins(load: Callable[[], dict[str, Any]], *names: str) -> dict[str, Any]:
    """What loads its part of the engine when one of the names is first needed: who never fails never pays."""

    def stand_in(name: str) -> Callable[..., Any]:
        def first(*given: Any) -> Any:
            NAMESPACE.update(load())
            return NAMESPACE[name](*given)  # type: ignore[operator] # it is among what was loaded

        return first

    return {name: stand_in(name) for name in names}


def _sync() -> dict[str, Any]:
    from perdure.engine import sync

    return {"_failed": sync.first_failure, "_resume": sync.drive, "_general": sync.general}


def _async() -> dict[str, Any]:
    from perdure.engine import aio

    resuming = {"_aresume": aio.drive, "_tresume": aio.resume}
    return {"_ageneral": aio.general, "_tfailed": aio.timed_failure, **resuming}


def _generators() -> dict[str, Any]:
    from perdure.engine import generators

    return {"_begin": generators.begin, "_abegin": generators.abegin}


def _dependent() -> dict[str, Any]:
    from perdure.engine import dependent

    return {
        "_dfailed": dependent.failed,
        "_dgeneral": dependent.general,
        "_adgeneral": dependent.ageneral,
        "_dresume": dependent.resume,
        "_adresume": dependent.aresume,
    }


def _ends() -> dict[str, Any]:
    """Of these the test for ends comes first, so that one loads them all."""
    from perdure.engine import ambient, dependent, timers

    return {
        "_ends": ambient.ENDS.get,
        "_open": timers.open_attempt,
        "_close": timers.close_attempt,
        "_close_total": dependent.close_total,
        "_CallEnd": ambient.CallEnd,
        "_set_end": ambient.ENDS.set,
        "_reset_end": ambient.ENDS.reset,
    }


NAMESPACE.update(
    _now=time.monotonic,
    _none={},  # the keyword arguments of calls that have none: 64 bytes less for each call that waits
    _look=look,
    _dlook=look_guarded,
    _open_ends=OPEN_ENDS,
    _tock=tock,
    **_stand_ins(_sync, "_failed", "_resume", "_general"),
    **_stand_ins(_async, "_aresume", "_ageneral", "_tfailed", "_tresume"),
    **_stand_ins(_generators, "_begin", "_abegin"),
    **_stand_ins(_dependent, "_dfailed", "_dgeneral", "_adgeneral", "_dresume", "_adresume"),
    **_stand_ins(_ends, "_ends", "_open", "_close", "_close_total", "_CallEnd"),
)
