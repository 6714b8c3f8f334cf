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

from perdure.bypass import NAMESPACE, WRAPPER_FILE
from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, colour, is_awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
_OTHERS = {
    # Policies with more than the success path can hold, and generators, which are retried up to their first item.
    "general": ("", "return _general({given})"),
    "general async": ("async ", "return await _ageneral({given})"),
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
_OURS = frozenset(
    """
    _fn _site _slow _start _error _run _value _now _none _failed _resume _aresume _general _ageneral _look
    _begin _abegin _begun _items _item _sent Exception BaseException GeneratorExit StopAsyncIteration
    """.split()  # noqa: SIM905 - two dozen strings in two lines
)
"""What the templates use themselves: a function with a parameter of such a name gets the catch-all form."""

Parameters = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str, str]
_ANY: Parameters = ((), (), (), "args", "kwargs")
_makers: dict[tuple[Parameters, str, bool], Callable[[Any, Site], FunctionType]] = {}


class Site:
    """A decorated function: what its wrapper hands to the engine."""

    __slots__ = ("__weakref__", "fn", "plain", "policy", "settled", "wrapper")

    def __init__(self, policy: Retry, fn: Callable[..., Any]) -> None:
        self.policy = policy
        self.fn = fn
        self.plain = 0
        self.settled: tuple[Parameters, bool] | None = None  # what the form without a look is made from
        self.wrapper: Callable[[], FunctionType | None] | None = None


def wrap(policy: Retry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The guarded form of ``fn``: same parameters, name, docs and colour."""
    wrapper: Any = _generate(Site(policy, fn), fn, colour(fn))
    _dress(wrapper, fn)
    wrapper.__perdure__ = policy
    return wrapper  # type: ignore[no-any-return] # it has fn's own parameters


def _generate(site: Site, fn: Callable[..., Any], kind: str) -> FunctionType:
    parameters = _parameters(fn.__code__) if isinstance(fn, FunctionType) else _ANY
    timed = site.policy.deadline is not None
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        form = kind
    elif site.policy.is_plain:
        form = "async" if kind == ASYNC else "looking"
    else:
        form = "general async" if kind == ASYNC else "general"
    wrapper = _maker(parameters, form, timed)(fn, site)
    if isinstance(fn, FunctionType) and parameters is not _ANY:
        wrapper.__defaults__ = fn.__defaults__
        wrapper.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    elif isinstance(fn, FunctionType):  # the catch-all form of a function that has parameters of its own
        from inspect import signature

        wrapper.__signature__ = signature(fn)  # type: ignore[attr-defined] # inspect looks for it
    wrapper.__code__ = _named_after(fn, wrapper.__code__)
    if form == "looking":
        site.wrapper, site.settled = ref(wrapper), (parameters, timed)
    return wrapper


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
    if wrapper is not None and site.settled is not None:
        parameters, timed = site.settled
        plain = _maker(parameters, "sync", timed)(site.fn, site)
        wrapper.__code__ = _named_after(site.fn, plain.__code__)
    site.settled = site.wrapper = None


def _maker(parameters: Parameters, form: str, timed: bool) -> Callable[[Any, Site], FunctionType]:
    key = (parameters, form, timed)
    if key not in _makers:
        if len(_makers) >= 2000:  # functions made at run time with ever new parameter names
            _makers.clear()
        made: dict[str, Any] = {}
        exec(compile(_source(parameters, form, timed), WRAPPER_FILE, "exec"), NAMESPACE, made)  # noqa: S102 - see above
        _makers[key] = made["_make"]
    return _makers[key]


def _source(parameters: Parameters, form: str, timed: bool) -> str:
    listed, args, kwargs, call = _texts(parameters)
    if form in _OTHERS:
        kind, body = _OTHERS[form]
        body = body.format(given=f"_site, {args}, {kwargs}")
        return _OTHER.format(kind=kind, parameters=listed, body=body)
    kind, general, called, otherwise, resume = _FORMS[form]
    return _BODY.format(
        kind=kind,
        general=general,
        call=called.format(call=call),
        otherwise=otherwise.format(args=args, kwargs=kwargs),
        resume=resume,
        clock="_now()" if timed else "None",
        parameters=listed,
        args=args,
        kwargs=kwargs,
    )


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

        NAMESPACE.update(_aresume=aio.drive, _ageneral=aio.general)
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the two above

    return load


def _generator_part(name: str) -> Callable[..., Any]:
    def load(*given: Any) -> Any:
        from perdure.engine import generators

        NAMESPACE.update(_begin=generators.begin, _abegin=generators.abegin)
        return NAMESPACE[name](*given)  # type: ignore[operator] # one of the two above

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
    _begin=_generator_part("_begin"),
    _abegin=_generator_part("_abegin"),
)
