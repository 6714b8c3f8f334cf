"""The wrapper of a decorated function: straight-line code with the function's own parameters.

Passing ``*args, **kwargs`` through costs more than everything else a successful call needs, so the wrapper is
generated: the template below is compiled once per parameter list and shared, each function then gets a copy of
the code under its own name (that is what tracebacks and profilers show). For ``def f(a, *, b=1)`` it is::

    def f(a, *, b):                       # the defaults are f's own objects, set on the function
        if _slow:                         # a listener, a virtual clock, a deadline block, a shutdown
            return _general(_site, (a,), {'b': b})
        _start = _now()                   # None where the policy has no deadline
        try:
            return _fn(a, b=b)
        except Exception as _error:
            _run = _failed(_site, (a,), {'b': b}, _start, _error)
            if _run is None:
                raise
        return _resume(_run)              # outside the except block: nothing is kept alive meanwhile

Of a dependency it is the same with a test before, whether all is well with the dependency, and a count after; see
``perdure.engine.state``.

Everything after the first failure is in ``perdure.engine.run``. What has no Python code of its own (classes,
C functions, partials, callable objects) gets the same template with ``*args, **kwargs``.

A plain function may return an awaitable, and only its results tell. So a sync wrapper starts in a form that
looks at them and, after enough plain results, takes the form above by assigning ``__code__``; a function that
ever returned an awaitable keeps the form that looks. (What is not seen: a function whose first PROBATION results
are plain and whose later ones are awaitables. Looking at every result would cost a third of the wrapper.)
"""

from __future__ import annotations

import time
from _weakref import ref
from functools import update_wrapper
from keyword import iskeyword
from types import CodeType, FunctionType

from perdure import clock
from perdure.bypass import NAMESPACE, OPEN_ENDS, WRAPPER_FILE
from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, colour, is_awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.engine.run import Run
    from perdure.policies import Retry

PROBATION = 100
"""Plain results in a row after which a sync function is taken to return no awaitables."""

_BODY = """\
def _make(_fn, _site):
    {kind}def _wrapper({parameters}):
        if _slow:
            return {general}(_site, {args}, {kwargs})
        _start = {clock}
        try:
            {call}
        except Exception as _error:
            _run = _failed(_site, {args}, {kwargs}, _start, _error)
            if _run is None:
                raise
        {otherwise}return {resume}(_run)
    return _wrapper
"""
_TIMED = """\
def _make(_fn, _site):
    async def _wrapper({parameters}):
        if _watched or _ends() is not None:
            return await _ageneral(_site, {args}, {kwargs})
        _start = _now()
        _end = _open(_site, _start)
        if _end is None:
            return await _ageneral(_site, {args}, {kwargs})
        try:
            _value = await _fn({call})
        except BaseException as _error:
            _run = _tfailed(_site, {args}, {kwargs}, _start, _end, _error)
            if _run is None:
                raise
        else:
            _close(_end)
            return _value
        return await _tresume(_run)
    return _wrapper
"""
"""Of an async function whose attempts have a timeout; see ``timers.open_attempt``."""

_FORMS = {
    "sync": ("", "_general", "return _fn({call})", "", "_resume"),
    "looking": (
        "",
        "_general",
        "_value = _fn({call})",
        "else:\n            return _look(_site, {args}, {kwargs}, _start, _value)\n        ",
        "_resume",
    ),
    "async": ("async ", "await _ageneral", "return await _fn({call})", "", "await _aresume"),
}
_GUARDED = """\
def _make(_fn, _site, _state, _flight):
    {kind}def _wrapper({parameters}):
        {declared}_lease = _state.fast
        if _lease is None or {slow}:
            {quick}return {general}(_site, {args}, {kwargs})
        {before}try:
            _value = {call}
        except BaseException as _error:
            {late}_run = _dfailed(_site, {args}, {kwargs}, {start}, _lease, _error{end}){undo}
            if _run is None:
                raise
        else:
            {leave}
        return {resume}(_run)
    return _wrapper
"""
_QUICK = """\
if not _slow and (_start := _now()) < _state.rejects_until:
                raise _state.refusal(_start)
            """
"""Of an open breaker. No variable holds the error: that would be a cycle, once for each refused call."""

_GUARDED_FORMS = {
    "sync": ("", "_dgeneral", "_fn({call})", "_dresume"),
    "looking": ("", "_dgeneral", "_fn({call})", "_dresume"),
    "async": ("async ", "await _adgeneral", "await _fn({call})", "await _adresume"),
}
_OTHERS = {
    # Policies with more than the success path can hold, and generators, which are retried up to their first item.
    "general": ("", "return _general({given})"),
    "general async": ("async ", "return await _ageneral({given})"),
    "dependent general": ("", "return _dgeneral({given})"),
    "dependent general async": ("async ", "return await _adgeneral({given})"),
    "generator": ("", "return (yield from _begin({given}))"),
    "async generator": (
        "async ",
        """_begun = await _abegin({given})
        if _begun is None:
            return
        _items, _item = _begun
        try:  # "yield from", which async generators do not have
            while True:
                try:
                    _sent = yield _item
                except GeneratorExit:
                    raise
                except BaseException as _error:
                    _item = await _items.athrow(_error)
                else:
                    _item = await _items.asend(_sent)
        except StopAsyncIteration:
            return
        finally:
            await _items.aclose()""",
    ),
}
_OTHER = """\
def _make(_fn, _site):
    {kind}def _wrapper({parameters}):
        {body}
    return _wrapper
"""
# Never reached, but so its closure is that of the fused forms, and one can take the place of the other.
_GUARDED_OTHER = """\
def _make(_fn, _site, _state, _flight):
    {kind}def _wrapper({parameters}):
        {body}
        _fn, _state, _flight
    return _wrapper
"""
_OURS = frozenset(
    """
    _fn _site _state _flight _lease _slow _start _error _run _value _now _none _failed _resume _aresume _general
    _ageneral _look _begin _abegin _begun _items _item _sent _dfailed _dgeneral _adgeneral _dresume _adresume _dlook
    _count _tock _end _ends _open _close _close_total _CallEnd _set_end _reset_end _open_ends _watched
    _tfailed _tresume len Exception BaseException GeneratorExit StopAsyncIteration
    """.split()  # noqa: SIM905 - some sixty strings in four lines
)
"""What the templates use themselves: a function with a parameter of such a name gets the catch-all form."""

Parameters = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str, str]
_ANY: Parameters = ((), (), (), "args", "kwargs")
_makers: dict[tuple[Parameters, str, tuple[int, ...]], Callable[..., FunctionType]] = {}


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
        # What the form without a look is made from; of a dependency also the form it has, and its colour.
        self.settled: tuple[Parameters, tuple[int, ...]] | None = None
        self.form: tuple[str, Parameters, tuple[str, tuple[int, ...]]] | None = None
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
    wrapper: Any = _generate(Site(policy, fn), fn, colour(fn))
    _dress(wrapper, fn)
    wrapper.__perdure__ = policy
    return wrapper  # type: ignore[no-any-return] # it has fn's own parameters


def wrap_guarded(guard: Guard, fn: Callable[..., Any], shown: object) -> Callable[..., Any]:
    """The form of ``fn`` that calls a dependency; ``shown`` is what the wrapper gives as its policy."""
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
    parameters = _parameters(fn.__code__) if isinstance(fn, FunctionType) else _ANY
    form, flags = _form(site, kind)
    wrapper = _maker(parameters, form, flags)(*_closure(site, form))
    if isinstance(fn, FunctionType) and parameters is not _ANY:
        wrapper.__defaults__ = fn.__defaults__
        wrapper.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    elif isinstance(fn, FunctionType):  # the catch-all form of a function that has parameters of its own
        from inspect import signature

        wrapper.__signature__ = signature(fn)  # type: ignore[attr-defined] # inspect looks for it
    wrapper.__code__ = _named_after(fn, wrapper.__code__)
    if form == "looking":
        site.wrapper, site.settled = ref(wrapper), (parameters, flags)
    if site.guard is not None and kind not in {GENERATOR, ASYNC_GENERATOR}:
        site.wrapper, site.form = ref(wrapper), (kind, parameters, (form, flags))
    return wrapper


def _refit(
    site: Site, wrapper: FunctionType, kind: str, parameters: Parameters, before: tuple[str, tuple[int, ...]]
) -> None:
    """Give a wrapper the form that its dependency asks for by now; all forms have the same closure."""
    site.is_quick = False
    form, flags = _form(site, kind)
    if (form, flags) == before:
        return
    site.form = kind, parameters, (form, flags)
    site.plain, site.settled = 0, (parameters, flags) if form == "looking" else None
    fresh = _maker(parameters, form, flags)(*_closure(site, form))
    if site.state is not None:
        for cell, new in zip(wrapper.__closure__ or (), fresh.__closure__ or (), strict=True):
            cell.cell_contents = new.cell_contents
    wrapper.__code__ = _named_after(site.fn, fresh.__code__)


def _form(site: Site, kind: str) -> tuple[str, tuple[int, ...]]:
    """The template, and what a successful call has to do in it.

    Of a bare Retry: whether it reads the clock. Of a dependency also: whether it looks if a tick is due, counts
    what is in flight, counts successes or only notes that there was one, and looks at the time now and then.
    """
    guard, timed = site.guard, site.policy.deadline is not None
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        return kind, ()
    if guard is not None:
        return _guarded_form(site, kind == ASYNC)
    if kind == ASYNC and site.policy.is_timed:
        return "timed", (True,)
    if site.policy.is_plain:
        return ("async" if kind == ASYNC else "looking"), (timed,)
    return ("general async" if kind == ASYNC else "general"), ()


def _guarded_form(site: Site, is_async: bool) -> tuple[str, tuple[int, ...]]:
    guard = site.guard
    bounded = guard.bounds(is_async)
    if bounded is None or not site.state.kit.is_fusable:
        return ("dependent general async" if is_async else "dependent general"), ()
    kit, timed = site.state.kit, bounded or site.policy.deadline is not None
    ticks = kit.needs_ticks or (timed and kit.has_window)
    site.is_quick = not bounded
    tocks = kit.has_window and not ticks
    quick = kit.breaker_rule is not None and guard.fallback is None and guard.retry.on_exhausted is None
    flags = (timed, ticks, kit.counts_flight, kit.counts_successes, tocks, bounded, quick, kit.ceiling)
    return ("async" if is_async else "looking"), flags


def _closure(site: Site, form: str) -> tuple[Any, ...]:
    if site.guard is None or form in {GENERATOR, ASYNC_GENERATOR}:
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
        parameters, flags = settled
        plain = _maker(parameters, "sync", flags)(*_closure(site, "sync"))
        wrapper.__code__ = _named_after(site.fn, plain.__code__)
    site.settled = None
    if site.guard is None:
        site.wrapper = None


def _maker(parameters: Parameters, form: str, flags: tuple[int, ...]) -> Callable[..., FunctionType]:
    key = (parameters, form, flags)
    if key not in _makers:
        if len(_makers) >= 2000:  # functions made at run time with ever new parameter names
            _makers.clear()
        made: dict[str, Any] = {}
        exec(compile(_source(parameters, form, flags), WRAPPER_FILE, "exec"), NAMESPACE, made)  # noqa: S102 - see above
        _makers[key] = made["_make"]
    return _makers[key]


def _source(parameters: Parameters, form: str, flags: tuple[int, ...]) -> str:
    listed, args, kwargs, call = _texts(parameters)
    if len(flags) > 1:
        return _guarded_source(parameters, form, flags)
    if form == "timed":
        return _TIMED.format(parameters=listed, args=args, kwargs=kwargs, call=call)
    if form in _OTHERS:
        kind, body = _OTHERS[form]
        body = body.format(given=f"_site, {args}, {kwargs}")
        template = _GUARDED_OTHER if form.startswith("dependent") else _OTHER
        return template.format(kind=kind, parameters=listed, body=body)
    kind, general, called, otherwise, resume = _FORMS[form]
    return _BODY.format(
        kind=kind,
        general=general,
        call=called.format(call=call),
        otherwise=otherwise.format(args=args, kwargs=kwargs),
        resume=resume,
        clock="_now()" if any(flags) else "None",
        parameters=listed,
        args=args,
        kwargs=kwargs,
    )


def _guarded_source(parameters: Parameters, form: str, flags: tuple[int, ...]) -> str:
    listed, args, kwargs, call = _texts(parameters)
    timed, ticks, flies, counts, tocks, bounded, quick, ceiling = flags
    kind, general, called, resume = _GUARDED_FORMS[form]
    slow = "_watched or _ends() is not None" if bounded else "_slow"
    before: list[str] = []
    after: list[str] = []
    indent = "\n        "
    instead = f"{indent}    return {general}(_site, {args}, {kwargs})"
    if timed or ticks:
        before.append("_start = _now()")
    if ticks:
        before.append(f"if _start >= _state.due:{instead}")
    if flies:
        before.append("_flight.append(None)")
    if ceiling:  # counted first: no two that come at once can both take the last place
        before.append(f"if len(_flight) > {ceiling}:{indent}    _flight.pop(){instead}")
    end = ""
    if bounded and form == "async":
        back = f"{indent}    _flight.pop()" if flies else ""
        before += ["_end = _open(_site, _start)", f"if _end is None:{back}{instead}"]
        after.append("_close(_end)")
        end = ", _end"
    elif bounded:
        before += ["_end = _CallEnd()", "_end.at = _start + _site.bound", "_end.token = _set_end(_end)"]
        before += ["_open_ends.append(None)", "_slow = True"]
        after += ["_reset_end(_end.token)", "_end.token = None", "_open_ends.pop()"]
        after += ["if _end.last_failure is not None: _end.last_failure = None"]
        end = ", _end"
    if flies:
        after.append("_flight.pop()")
    start = "_start" if timed or ticks else "None"
    if form == "looking":
        after.append(f"return _dlook(_site, {args}, {kwargs}, {start}, _lease, _value)")
    else:
        after += [*_counted(counts, tocks), "return _value"]
    return _GUARDED.format(
        kind=kind,
        general=general,
        slow=slow,
        quick=_QUICK if quick else "",
        declared=f"global _slow{indent}" if bounded and form != "async" else "",
        call=called.format(call=call),
        resume=resume,
        before="".join(line + indent for line in before),
        start=start,
        # Whoever takes over counts the attempt itself: where it cannot even begin to, as at the end of the stack,
        # nothing is left behind. (All forms name the same variables, so that one can take the place of the other.)
        late=f"_flight{'.pop()' if flies else ''}{indent}    " + (f"try:{indent}        " if bounded else ""),
        undo=_undo(indent + "    ", form) if bounded else "",
        end=end,
        leave=(indent + "    ").join(after),
        parameters=listed,
        args=args,
        kwargs=kwargs,
    )


def _undo(indent: str, form: str) -> str:
    """Close the end of an attempt whose failure could not be looked at."""
    close = (
        ["_close(_end)"]
        if form == "async"
        else ["_reset_end(_end.token)", "_end.token = None", "_open_ends.pop()"]
    )
    lines = [
        "except BaseException:",
        "    if _end.token is not None:",
        *(" " * 8 + one for one in close),
        "    raise",
    ]
    return "".join(indent + line for line in lines)


def _counted(counts: int, tocks: int) -> list[str]:
    if tocks:
        return ["_lease.ok = _count = _lease.ok + 1", "if not _count & 15: _tock(_state)"]
    return ["_lease.ok += 1" if counts else "_lease.flag = True"]


def _texts(parameters: Parameters) -> tuple[str, str, str, str]:
    """The parameter list, the tuple and dict that hold them, and the argument list that passes them on."""
    positional_only, regular, keyword_only, rest, keywords = parameters
    star = [f"*{rest}"] if rest else ["*"] if keyword_only else []
    slash = [*positional_only, "/"] if positional_only else []
    stars = [f"**{keywords}"] if keywords else []
    listed = [*slash, *regular, *star, *keyword_only, *stars]
    positional = [*positional_only, *regular, *([f"*{rest}"] if rest else [])]
    passed = [*positional, *(f"{name}={name}" for name in keyword_only), *stars]
    args = rest if positional == [f"*{rest}"] else f"({', '.join(positional)},)" if positional else "()"
    pairs = [*(f"{name!r}: {name}" for name in keyword_only), *stars]
    kwargs = keywords if pairs == [f"**{keywords}"] else f"{{{', '.join(pairs)}}}" if pairs else "_none"
    return ", ".join(listed), args, kwargs, ", ".join(passed)


def _parameters(code: CodeType) -> Parameters:
    """The parameters of a function by kind; the catch-all form where a name cannot be written or is ours."""
    names = code.co_varnames
    regular_end = code.co_argcount
    keyword_end = regular_end + code.co_kwonlyargcount
    at = keyword_end
    rest = keywords = ""
    if code.co_flags & 0x04:
        rest, at = names[at], at + 1
    if code.co_flags & 0x08:
        keywords, at = names[at], at + 1
    if any(name in _OURS or not name.isidentifier() or iskeyword(name) for name in names[:at]):
        return _ANY
    return (
        names[: code.co_posonlyargcount],
        names[code.co_posonlyargcount : regular_end],
        names[regular_end:keyword_end],
        rest,
        keywords,
    )


def _named_after(fn: Callable[..., Any], code: CodeType) -> CodeType:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return code.replace(co_name=name, co_qualname=getattr(fn, "__qualname__", None) or name)


def _dress(wrapper: FunctionType, fn: Callable[..., Any]) -> None:
    """Name, module, docs, annotations and ``__wrapped__``; callable objects lend those of their class."""
    update_wrapper(wrapper, fn)
    if not isinstance(fn, FunctionType) and not hasattr(fn, "__name__"):
        wrapper.__name__ = type(fn).__name__
        wrapper.__qualname__ = type(fn).__qualname__


def _sync_part(name: str) -> Callable[..., Any]:
    """A stand-in that loads its part of the engine when it is first needed: who never fails never pays."""

    def load(*given: Any) -> Any:
        from perdure.engine import sync

        NAMESPACE.update(_failed=sync.first_failure, _resume=sync.drive, _general=sync.general)
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the three above

    return load


def _async_part(name: str) -> Callable[..., Any]:
    def load(*given: Any) -> Any:
        from perdure.engine import aio

        NAMESPACE.update(
            _aresume=aio.drive, _ageneral=aio.general, _tfailed=aio.timed_failure, _tresume=aio.resume
        )
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the four above

    return load


def _generator_part(name: str) -> Callable[..., Any]:
    def load(*given: Any) -> Any:
        from perdure.engine import generators

        NAMESPACE.update(_begin=generators.begin, _abegin=generators.abegin)
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the two above

    return load


def _dependent_part(name: str) -> Callable[..., Any]:
    def load(*given: Any) -> Any:
        from perdure.engine import dependent

        NAMESPACE.update(
            _dfailed=dependent.failed,
            _dgeneral=dependent.general,
            _adgeneral=dependent.ageneral,
            _dresume=dependent.resume,
            _adresume=dependent.aresume,
        )
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the five above

    return load


def _end_part(name: str) -> Callable[..., Any]:
    def load(*given: Any) -> Any:  # the test for ends comes first, so that one loads them all
        from perdure.engine import ambient, dependent, timers

        NAMESPACE.update(
            _ends=ambient.ENDS.get,
            _open=timers.open_attempt,
            _close=timers.close_attempt,
            _CallEnd=ambient.CallEnd,
            _set_end=ambient.ENDS.set,
            _reset_end=ambient.ENDS.reset,
            _close_total=dependent.close_total,
        )
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the seven above

    return load


NAMESPACE.update(
    _now=time.monotonic,
    _none={},  # the keyword arguments of calls that have none: 64 bytes less for each call that waits
    _look=look,
    _failed=_sync_part("_failed"),
    _resume=_sync_part("_resume"),
    _general=_sync_part("_general"),
    _aresume=_async_part("_aresume"),
    _ageneral=_async_part("_ageneral"),
    _tfailed=_async_part("_tfailed"),
    _tresume=_async_part("_tresume"),
    _begin=_generator_part("_begin"),
    _abegin=_generator_part("_abegin"),
    _dlook=look_guarded,
    _open_ends=OPEN_ENDS,
    _tock=tock,
    **{
        name: _dependent_part(name)
        for name in ("_dfailed", "_dgeneral", "_adgeneral", "_dresume", "_adresume")
    },
    **{name: _end_part(name) for name in ("_ends", "_open", "_close", "_close_total", "_CallEnd")},
)
