"""How requests of one client are treated, and how a single request says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from inspect import signature

from perdure.checks import check_callable, check_flag, check_whole, refuse
from perdure.colour import is_coroutine_function
from perdure.faults import Safety
from perdure.parts import Fallback, Hedge, Timeouts
from perdure.policies import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextvars import Token
    from typing import Any, Self, TypedDict, Unpack

    from perdure.content import Reply, Rule
    from perdure.faults import Fault
    from perdure.idempotency import Keys

    class Given(TypedDict, total=False):
        """The fields of Options as keyword arguments."""

        key: Any
        content: Rule | None
        validate: Callable[[Reply], object] | None
        idempotency: Keys | None
        raise_on_exhausted: bool
        announce: bool
        headers: Callable[[], Mapping[str, str]] | None
        whole: bool
        peek: int

    class Said(TypedDict, total=False):
        """The fields of Override as keyword arguments."""

        retry: Retry | None
        timeouts: Timeouts | None
        safety: Safety | None
        hedge: Hedge | None
        fallback: Fallback | None
        key: Any
        content: Rule | None
        validate: Callable[[Reply], object] | None
        raise_on_exhausted: bool
        idempotency_key: str | None
        operation: str | None


__all__ = ["OVERRIDE", "Options", "Override", "check_arguments", "check_options", "override"]

LIMIT = 65_536


def _check_names(kind: type, given: Iterable[str], what: str) -> None:
    known = [one.name for one in fields(kind)]
    for name in given:
        if name not in known:
            raise refuse(what, f"must be among {', '.join(known)}", name)


def check_arguments(arguments: Iterable[str]) -> None:
    """A ConfigError where an option was given among the arguments of a client."""
    for one in fields(Options):
        if one.name in arguments and one.name != "headers":  # clients have an argument of that name
            raise refuse("options", f"holds {one.name}: write options=Options({one.name}=...)", one.name)


def check_options(options: Any) -> Options:
    """Options, or those of nobody; a ConfigError for what is none."""
    if options is None:
        return Options()
    if not isinstance(options, Options):
        raise refuse("options", "must be perdure.integrations.Options, or None", options)
    return options


def _check_functions(content: Any, validate: Any) -> None:
    if content is not None:
        _check_function("content", content)
    if validate is None:
        return
    _check_function("validate", validate)
    try:
        signature(validate).bind(None)
    except TypeError:
        raise refuse("validate", "must be a function of one argument, the Reply", validate) from None
    except ValueError:  # some functions in C do not say what they take
        return


class _Unset:
    """Stands for what a request does not say."""

    def __repr__(self) -> str:
        return "as it is"


UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an integration does beyond its policy; the keyword arguments of every transport, adapter and middleware.

    - ``key`` ("host"): which part of a Dependency a request goes to: its host (and port), None for the dependency
      as a whole, or a function of the request. A Dependency that has a ``key`` function of its own keeps it.
    - ``content`` (None): a rule of ``perdure.content`` that finds failures in answers that look well.
    - ``validate`` (None): a function of the ``perdure.content.Reply``, with the answer's body up to ``peek`` bytes:
      False, or an exception, means that the answer is no good; so does a Fault, which says more.
    - ``idempotency`` (None): ``perdure.idempotency.Keys``, which gives unsafe requests a key.
    - ``raise_on_exhausted`` (False): raise when attempts are used up, instead of giving the last response.
    - ``announce`` (False): say the attempt's number (``X-Attempt``) and the time left (``X-Request-Deadline``) in
      headers.
    - ``headers`` (None): a function without arguments that gives header fields for each attempt, such as a token
      that ``Retry.refresh`` has renewed.
    - ``whole`` (False): read bodies inside the attempt, so that one that is cut short is asked for again; not for
      streams. The ready clients do so by themselves where no stream is asked for.
    - ``peek`` (65,536): bytes of a body that may be looked at.

    Raises ConfigError for values that cannot work. Immutable: share it between threads and tasks.
    """

    key: Any = "host"
    content: Rule | None = None
    validate: Callable[[Reply], object] | None = None
    idempotency: Keys | None = None
    raise_on_exhausted: bool = False
    announce: bool = False
    headers: Callable[[], Mapping[str, str]] | None = None
    whole: bool = False
    peek: int = LIMIT

    def __post_init__(self) -> None:
        if self.key not in ("host", None):
            _check_function("key", self.key)
        _check_functions(self.content, self.validate)
        if self.headers is not None:
            _check_function("headers", self.headers)
        if self.idempotency is not None and not callable(getattr(self.idempotency, "claim", None)):
            raise refuse("idempotency", "must be perdure.idempotency.Keys, or None", self.idempotency)
        check_flag("raise_on_exhausted", self.raise_on_exhausted)
        check_flag("announce", self.announce)
        check_flag("whole", self.whole)
        check_whole("peek", self.peek, least=1)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from keyword arguments; a ConfigError that lists the fields for a name that is none."""
        _check_names(cls, given, "options")
        return cls(**given)

    @property
    def adds(self) -> bool:
        """Whether attempts have header fields of their own."""
        return self.announce or self.headers is not None

    @property
    def looks(self) -> bool:
        """Whether answers with a good status are looked at as well."""
        return self.content is not None or self.validate is not None

    def given(self) -> Given:
        """These as the keyword arguments that make them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[return-value] # its fields

    def changed(self, by: Override | None) -> Options:
        """These, with what one request says otherwise."""
        if by is None:
            return self
        own = {name: value for name in _SHARED if (value := getattr(by, name)) is not UNSET}
        return replace(self, **own) if own else self


_SHARED = ("content", "raise_on_exhausted", "validate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What one request, or all in a block, say otherwise. Immutable."""

    retry: Retry | None = UNSET
    timeouts: Timeouts | None = UNSET
    safety: Safety | None = UNSET
    hedge: Hedge | None = UNSET
    fallback: Fallback | None = UNSET
    key: Any = UNSET
    content: Rule | None = UNSET
    validate: Callable[[Reply], Fault | object] | None = UNSET
    raise_on_exhausted: bool = UNSET
    idempotency_key: str | None = UNSET
    operation: str | None = UNSET

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not UNSET and value is not None and not isinstance(value, kind):
                raise refuse(name, f"must be a {kind.__name__}, or None", value)
        content, validate = (None if one is UNSET else one for one in (self.content, self.validate))
        _check_functions(content, validate)
        if self.raise_on_exhausted is not UNSET:
            check_flag("raise_on_exhausted", self.raise_on_exhausted)
        if self.key is not UNSET and self.key.__hash__ is None:
            raise refuse("key", "must be a value that can be hashed, or a function of the request", self.key)

    @classmethod
    def of(cls, given: Mapping[str, Any] | Override) -> Override:
        """Read the mapping that a client's own per-request settings carry; a ConfigError for an unknown name."""
        if isinstance(given, Override):
            return given
        if not isinstance(given, Mapping):
            raise refuse("perdure", "must be a mapping of what one request says otherwise", given)
        _check_names(cls, given, "override")
        return cls(**given)

    def over(self, around: Override | None) -> Override:
        """What this one says, and where it says nothing, what the one around it says."""
        if around is None:
            return self
        names = [one.name for one in fields(self) if getattr(self, one.name) is UNSET]
        return replace(self, **{name: getattr(around, name) for name in names})

    @property
    def views(self) -> dict[str, Any]:
        """What goes into ``using`` of a dependency."""
        return {name: value for name in _VIEWED if (value := getattr(self, name)) is not UNSET}


_VIEWED = ("retry", "timeouts", "safety", "hedge", "fallback")
_KINDS: dict[str, type] = {
    "retry": Retry,
    "timeouts": Timeouts,
    "safety": Safety,
    "hedge": Hedge,
    "fallback": Fallback,
    "idempotency_key": str,
    "operation": str,
}


def _check_function(field: str, value: Any) -> None:
    check_callable(field, value)
    if is_coroutine_function(value):
        raise refuse(field, "must be a plain function: nobody would await it", value)


OVERRIDE: ContextVar[Override | None] = ContextVar("perdure_override", default=None)


class override:  # noqa: N801 - it is called like a function
    """Say for the requests in a block how they are treated: ``with override(retry=None): client.get(url)``.

    - ``retry``, ``timeouts``, ``safety``, ``hedge``, ``fallback``: as for ``Dependency.using``; ``retry=None`` is a
      single attempt.
    - ``key``, ``content``, ``validate``, ``raise_on_exhausted``: as for the integration.
    - ``idempotency_key``: the key of this operation; ``operation``: the business id under which a ``ClientStore``
      finds its key again.

    Blocks nest: the inner one wins, field by field. Raises ConfigError for values that cannot work. Each thread and
    task sees its own blocks.
    """

    __slots__ = ("_given", "_tokens")

    def __init__(self, **given: Unpack[Said]) -> None:
        self._given = Override.of(given)
        self._tokens: list[Token[Override | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(OVERRIDE.set(self._given.over(OVERRIDE.get())))
        return self

    def __exit__(self, *_: object) -> None:
        OVERRIDE.reset(self._tokens.pop())
