"""The frozen values users write: ``Retry``, and the decorator ``retry``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from perdure.core.backoff import DEFAULT, Backoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import Any, Literal, ParamSpec, Self, TypeVar, overload

    from perdure.core.explain import Explanation
    from perdure.engine.blocks import Attempt
    from perdure.engine.select import Selector
    from perdure.faults import FaultKind, Safety
    from perdure.outcome import Outcome

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F", bound=Callable[..., Any])

    Wanted = type[Exception] | FaultKind | Callable[[Any], object] | tuple[type[Exception] | FaultKind, ...]
else:
    from perdure.bypass import overload


__all__ = ["FOREVER", "Retry", "retry"]


class _Forever(float):
    """Infinity that had to be written in words."""

    __slots__ = ()
    in_words = True

    def __repr__(self) -> str:
        return "FOREVER"

    def __reduce__(self) -> str:
        return "FOREVER"


class _Unwritten(int):
    """A default that can be told from the same number written by the user."""


UNWRITTEN_DEADLINE = _Unwritten(30)

FOREVER = _Forever("inf")
"""``Retry(attempts=None, deadline=perdure.FOREVER)``: no bound at all, said in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, when and for which failures a call is made again.

    - ``attempts`` (4): calls in all, the first included; None: unbounded, which needs a deadline.
    - ``backoff`` (``Exponential()``): the wait before each retry, 0.1 s x 2^n up to 5 s with full jitter; where
      none is given, throttled faults start at 1 s.
    - ``on`` (None): what is retried: exception types, FaultKinds, a tuple of these, or one predicate on the
      exception. None: what the classifier calls transient, throttled or ambiguous.
    - ``never`` (None): the same forms; wins over ``on``.
    - ``reject`` (None): a predicate on results; a rejected one counts as a failed attempt.
    - ``deadline`` (30 s): seconds from the start after which no attempt and no wait begins; it never interrupts
      an attempt. None: no deadline.
    - ``attempt_timeout`` (None): seconds one attempt may take; it interrupts async functions, and is handed to
      sync ones through ``time_left()``, as a plain function cannot be interrupted.
    - ``shrink`` (1.0): factor on the attempt timeout for each retry, in (0, 1].
    - ``safety`` (None): a Safety; UNSAFE operations are not repeated when the effect may have happened. None: by
      the request that the error carries, else safe.
    - ``nested`` ("inner"): guarded calls inside retry, and the outer one does not repeat what they gave up on.
      "outer": the outer one retries, they make single attempts. "both": they multiply.
    - ``refresh`` (None): called without arguments, once, when a fault is stale; one attempt follows at once.
    - ``hint_cap`` (300 s): the longest wait a server may ask for; beyond it the call ends.
    - ``on_exhausted`` (None): "return" gives back a result that stays rejected; a callable gets the Outcome.
    - ``name`` (None): the operation's name in logs and events; None: the function's.

    Use it as decorator (``policy(fn)``), ``policy.call(fn, ...)``, ``policy.outcome(fn, ...)``, or over a block:
    ``for attempt in policy: with attempt: ...`` (``async for`` in async code). When it gives up, the function's
    own last exception comes out, with one note that says why.

    Raises ConfigError for values that cannot work, with field, range and value. An immutable value without
    state: share it between threads, tasks and loops.
    """

    attempts: int | None = 4
    backoff: Backoff = DEFAULT
    on: Wanted | None = None
    never: Wanted | None = None
    reject: Callable[[Any], object] | None = None
    deadline: float | None = UNWRITTEN_DEADLINE
    attempt_timeout: float | None = None
    shrink: float = 1.0
    safety: Safety | None = None
    nested: Literal["inner", "outer", "both"] = "inner"
    refresh: Callable[[], object] | None = None
    hint_cap: float = 300
    on_exhausted: Literal["return"] | Callable[[Outcome[Any]], object] | None = None
    name: str | None = None

    # Worked out once, for the engine.
    is_plain: bool = field(init=False, repr=False, compare=False)
    is_timed: bool = field(init=False, repr=False, compare=False)
    is_coherent: bool = field(init=False, repr=False, compare=False)
    selector: Selector | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _is_default(self):
            from perdure.engine.select import check, make_selector

            check(self)
            chosen = make_selector(self.on, self.never)
        else:
            chosen = None
        object.__setattr__(self, "selector", chosen)
        plain = self.reject is None and self.nested != "outer"
        object.__setattr__(self, "is_plain", plain and self.attempt_timeout is None)
        object.__setattr__(self, "is_timed", plain and self.attempt_timeout is not None)
        object.__setattr__(self, "is_coherent", self.backoff.jitter == "coherent")

    def __call__(self, fn: F, /) -> F:
        """Guard a function, method or callable object: same parameters, name, docs, type and colour.

        Works on ``def``, ``async def``, generators (retried until their first item), methods, classmethods and
        staticmethods in either order, partials and callable objects. Raises ConfigError for what cannot be
        called. The result is as thread and task safe as ``fn``.
        """
        return _decorate(self, fn)  # type: ignore[no-any-return] # a wrapper of the same type

    @overload
    def outcome(  # type: ignore[overload-overlap] # a coroutine function is a callable too
        self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Outcome[R]]: ...
    @overload
    def outcome(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]: ...
    def outcome(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``fn`` and return an Outcome instead of raising; for an async ``fn``, a coroutine that does.

        BaseExceptions that are not Exceptions (KeyboardInterrupt, cancellation) still pass. Thread and task
        safe.
        """
        from perdure.engine.calls import outcome

        return outcome(self, fn, args, kwargs)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``fn`` with these arguments, guarded; for an async ``fn``, returns the coroutine to await.

        Raises what the last attempt raised, or ResultRejected. Thread and task safe.
        """
        from perdure.engine.calls import call

        return call(self, fn, args, kwargs)  # type: ignore[no-any-return] # what fn returns

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts for a block: ``for attempt in policy: with attempt: ...``; each loop is a fresh run."""
        from perdure.engine.blocks import Loop

        return Loop(self)

    def __aiter__(self) -> AsyncIterator[Attempt]:
        """Attempts for a block in async code: ``async for attempt in policy: with attempt: ...``."""
        from perdure.engine.blocks import AsyncLoop

        return AsyncLoop(self)

    def delays(self, n: int | None = None, seed: int | None = None) -> tuple[float, ...]:
        """The first ``n`` delays a call would draw, in seconds (default: attempts - 1, or 10 if unbounded).

        ``seed`` makes the draw repeatable. Deadlines and hints are not applied. Raises ConfigError for n < 0.
        """
        from perdure.engine.select import delays

        return delays(self, n, seed)

    def explain(self) -> Explanation:
        """The plan as text, dict and JSON: delays, worst cases, and warnings about known anti-patterns."""
        from perdure.core.explain import explain_retry

        return explain_retry(self)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields; raises ConfigError for a field that does not exist."""
        _check_names(changes)
        return replace(self, **changes)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle what the user wrote; defaults stay defaults."""
        given = {
            one.name: value
            for one in fields(self)
            if one.init and (value := getattr(self, one.name)) is not one.default
        }
        return _rebuild, (type(self), given)


def _rebuild(kind: type[Retry], given: dict[str, Any]) -> Retry:
    return kind(**given)


def _is_default(policy: Retry) -> bool:
    return all(getattr(policy, one.name) is one.default for one in fields(policy) if one.init)


@overload
def retry(fn: F, /) -> F: ...
@overload
def retry(
    *,
    attempts: int | None = 4,
    backoff: Backoff = ...,
    on: Wanted | None = None,
    never: Wanted | None = None,
    reject: Callable[[Any], object] | None = None,
    deadline: float | None = 30,
    attempt_timeout: float | None = None,
    shrink: float = 1.0,
    safety: Safety | None = None,
    nested: Literal["inner", "outer", "both"] = "inner",
    refresh: Callable[[], object] | None = None,
    hint_cap: float = 300,
    on_exhausted: Literal["return"] | Callable[[Outcome[Any]], object] | None = None,
    name: str | None = None,
) -> Callable[[F], F]: ...
def retry(fn: Any = None, /, **options: Any) -> Any:
    """Guard a function: ``@retry``, or ``@retry(on=OSError, attempts=5)`` with the fields of ``Retry``.

    By default: transient faults, 4 attempts, full jitter from 0.1 s to 5 s, a deadline of 30 s. It survives
    blips; it has no budget, so it does not protect a dependency that is overloaded.

    Raises ConfigError for options that cannot work or are given by position. The decorated function is as
    thread and task safe as the function itself.
    """
    if fn is None:
        return make(options)
    return _decorate(make(options) if options else _default(), fn)


def make(options: dict[str, Any]) -> Retry:
    """A Retry of these options; ConfigError for one that does not exist."""
    _check_names(options)
    return Retry(**options)


def _check_names(options: dict[str, Any]) -> None:
    known = [one.name for one in fields(Retry) if one.init]
    for name, value in options.items():
        if name not in known:
            from perdure.errors import ConfigError

            raise ConfigError(f"{name} is not a field of Retry ({', '.join(known)}), got {name}={value!r}")


def _default() -> Retry:
    global _plain_retry  # noqa: PLW0603 - made when first needed, one for all
    if _plain_retry is None:
        _plain_retry = Retry()
    return _plain_retry


_plain_retry: Retry | None = None


def _decorate(policy: Retry, fn: Any) -> Any:
    from perdure.engine.fused import wrap

    return decorate(policy, fn, lambda one: wrap(policy, one))


def decorate(policy: object, fn: Any, wrap: Callable[[Any], Any]) -> Any:
    """Wrap what a decorator was put on, or refuse it with a ConfigError."""
    if isinstance(fn, (classmethod, staticmethod)):
        bound: Any = fn  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
        return type(bound)(decorate(policy, bound.__func__, wrap))
    if not callable(fn) or isinstance(fn, (type(policy), Retry, Backoff)) or _is_error_type(fn):
        from perdure.colour import discard
        from perdure.errors import ConfigError

        discard(fn)
        raise ConfigError(
            f"a guard takes a callable; options go by keyword, as in retry(on=OSError, attempts=5), got {fn!r}"
        )
    return wrap(fn)


def _is_error_type(fn: object) -> bool:
    return isinstance(fn, type) and issubclass(fn, BaseException)
