"""What makes source from the templates: the form a function gets, its parameters, and the maker of its wrappers.

A maker is compiled once for all functions with the same parameters and the same form.
"""

from __future__ import annotations

from keyword import iskeyword

from perdure.bypass import NAMESPACE, WRAPPER_FILE
from perdure.engine.templates import (
    BODY,
    FORMS,
    GUARDED,
    GUARDED_FORMS,
    GUARDED_OTHER,
    OTHER,
    OTHERS,
    OURS,
    QUICK,
    TIMED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType
    from typing import NamedTuple

    class Form(NamedTuple):
        """A template by its name, and what a successful call has to do in it. Immutable."""

        name: str
        reads_clock: bool = False
        is_guarded: bool = False  # calls a dependency, on the success path; what follows is of these only
        ticks: bool = False  # looks before each call if a tick is due
        tocks: bool = False  # looks at the time now and then
        counts_flight: bool = False
        counts_successes: bool = False  # else it only notes that there was one
        is_bounded: bool = False  # publishes an end
        is_quick: bool = False  # raises the refusals of an open breaker
        ceiling: int = 0  # attempts in flight at most; 0: not looked at

else:
    # The same without typing, which no program should have to load; a dataclass takes ten times as long to make.
    from collections import namedtuple

    Form = namedtuple(  # noqa: PYI024 - see above
        "Form",
        "name reads_clock is_guarded ticks tocks counts_flight counts_successes is_bounded is_quick ceiling",
        defaults=(*[False] * 8, 0),
    )

__all__ = ["ANY", "Form", "Parameters", "maker", "parameters_of", "source"]

Parameters = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str, str]
"""The names of the positional-only, regular and keyword-only parameters, of ``*args`` and of ``**kwargs``."""

ANY: Parameters = ((), (), (), "args", "kwargs")
MAKERS_KEPT = 2000

_INDENT = "\n        "
_makers: dict[tuple[Parameters, Form], Callable[..., FunctionType]] = {}


def maker(parameters: Parameters, form: Form) -> Callable[..., FunctionType]:
    """What makes a wrapper of that form when it is given the function, its site and so on."""
    key = (parameters, form)
    if key not in _makers:
        if len(_makers) >= MAKERS_KEPT:  # functions made at run time with ever new parameter names
            _makers.clear()
        made: dict[str, Callable[..., FunctionType]] = {}
        exec(compile(source(parameters, form), WRAPPER_FILE, "exec"), NAMESPACE, made)  # noqa: S102 - see templates
        _makers[key] = made["_make"]
    return _makers[key]


def source(parameters: Parameters, form: Form) -> str:
    """The source of a maker."""
    if form.is_guarded:
        return _guarded(parameters, form)
    listed, args, kwargs, call = _texts(parameters)
    if form.name == "timed":
        return TIMED.format(parameters=listed, args=args, kwargs=kwargs, call=call)
    if form.name in OTHERS:
        kind, body = OTHERS[form.name]
        body = body.format(given=f"_site, {args}, {kwargs}")
        template = GUARDED_OTHER if form.name.startswith("dependent") else OTHER
        return template.format(kind=kind, parameters=listed, body=body)
    kind, general, called, otherwise, resume = FORMS[form.name]
    return BODY.format(
        kind=kind,
        general=general,
        call=called.format(call=call),
        otherwise=otherwise.format(args=args, kwargs=kwargs),
        resume=resume,
        clock="_now()" if form.reads_clock else "None",
        parameters=listed,
        args=args,
        kwargs=kwargs,
    )


def _guarded(parameters: Parameters, form: Form) -> str:
    listed, args, kwargs, call = _texts(parameters)
    kind, general, called, resume = GUARDED_FORMS[form.name]
    bounded, is_async = form.is_bounded, form.name == "async"
    start = "_start" if form.reads_clock or form.ticks else "None"
    before = _before(form, f"{_INDENT}    return {general}(_site, {args}, {kwargs})")
    after = _closing(form) if bounded else []
    if bounded and not is_async:
        after.append("if _end.last_failure is not None: _end.last_failure = None")
    if form.counts_flight:
        after.append("_flight.pop()")
    if form.name == "looking":
        after.append(f"return _dlook(_site, {args}, {kwargs}, {start}, _lease, _value)")
    else:
        after += [*_counting(form), "return _value"]
    # Whoever takes over counts the attempt itself: where it cannot even begin to, as at the end of the stack,
    # nothing is left behind. (All forms name the same variables, so that one can take the place of the other.)
    late = f"_flight{'.pop()' if form.counts_flight else ''}{_INDENT}    "
    return GUARDED.format(
        kind=kind,
        general=general,
        slow="_watched or _ends() is not None" if bounded else "_slow",
        quick=QUICK if form.is_quick else "",
        declared=f"global _slow{_INDENT}" if bounded and not is_async else "",
        call=called.format(call=call),
        resume=resume,
        before="".join(line + _INDENT for line in before),
        start=start,
        late=late + (f"try:{_INDENT}        " if bounded else ""),
        undo=_undoing(form) if bounded else "",
        end=", _end" if bounded else "",
        leave=f"{_INDENT}    ".join(after),
        parameters=listed,
        args=args,
        kwargs=kwargs,
    )


def _before(form: Form, instead: str) -> list[str]:
    """What comes before the attempt; ``instead``: the step onto the general path."""
    lines: list[str] = []
    if form.reads_clock or form.ticks:
        lines.append("_start = _now()")
    if form.ticks:
        lines.append(f"if _start >= _state.due:{instead}")
    if form.counts_flight:
        lines.append("_flight.append(None)")
    if form.ceiling:  # counted first: no two that come at once can both take the last place
        lines.append(f"if len(_flight) > {form.ceiling}:{_INDENT}    _flight.pop(){instead}")
    if form.is_bounded and form.name == "async":
        back = f"{_INDENT}    _flight.pop()" if form.counts_flight else ""
        lines += ["_end = _open(_site, _start)", f"if _end is None:{back}{instead}"]
    elif form.is_bounded:
        lines += ["_end = _CallEnd()", "_end.at = _start + _site.bound", "_end.token = _set_end(_end)"]
        lines += ["_open_ends.append(None)", "_slow = True"]
    return lines


def _closing(form: Form) -> list[str]:
    """What closes the end of an attempt."""
    if form.name == "async":
        return ["_close(_end)"]
    return ["_reset_end(_end.token)", "_end.token = None", "_open_ends.pop()"]


def _undoing(form: Form) -> str:
    """Close the end of an attempt whose failure could not be looked at."""
    lines = [
        "except BaseException:",
        "    if _end.token is not None:",
        *(" " * 8 + one for one in _closing(form)),
        "    raise",
    ]
    return "".join(f"{_INDENT}    {line}" for line in lines)


def _counting(form: Form) -> list[str]:
    if form.tocks:
        return ["_lease.ok = _count = _lease.ok + 1", "if not _count & 15: _tock(_state)"]
    return ["_lease.ok += 1" if form.counts_successes else "_lease.flag = True"]


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


def parameters_of(code: CodeType) -> Parameters:
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
    if any(name in OURS or not name.isidentifier() or iskeyword(name) for name in names[:at]):
        return ANY
    return (
        names[: code.co_posonlyargcount],
        names[code.co_posonlyargcount : regular_end],
        names[regular_end:keyword_end],
        rest,
        keywords,
    )
