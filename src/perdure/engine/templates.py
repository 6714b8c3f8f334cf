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

BODY = """\
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
TIMED = """\
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

FORMS = {
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
GUARDED = """\
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
QUICK = """\
if not _slow and (_start := _now()) < _state.rejects_until:
                raise _state.refusal(_start)
            """
"""Of an open breaker. No variable holds the error: that would be a cycle, once for each refused call."""

GUARDED_FORMS = {
    "sync": ("", "_dgeneral", "_fn({call})", "_dresume"),
    "looking": ("", "_dgeneral", "_fn({call})", "_dresume"),
    "async": ("async ", "await _adgeneral", "await _fn({call})", "await _adresume"),
}
OTHERS = {
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
OTHER = """\
def _make(_fn, _site):
    {kind}def _wrapper({parameters}):
        {body}
    return _wrapper
"""
# Never reached, but so its closure is that of the fused forms, and one can take the place of the other.
GUARDED_OTHER = """\
def _make(_fn, _site, _state, _flight):
    {kind}def _wrapper({parameters}):
        {body}
        _fn, _state, _flight
    return _wrapper
"""
OURS = frozenset(
    """
    _fn _site _state _flight _lease _slow _start _error _run _value _now _none _failed _resume _aresume _general
    _ageneral _look _begin _abegin _begun _items _item _sent _dfailed _dgeneral _adgeneral _dresume _adresume _dlook
    _count _tock _end _ends _open _close _close_total _CallEnd _set_end _reset_end _open_ends _watched
    _tfailed _tresume len Exception BaseException GeneratorExit StopAsyncIteration
    """.split()  # noqa: SIM905 - some sixty strings in four lines
)
"""What the templates use themselves: a function with a parameter of such a name gets the catch-all form."""
