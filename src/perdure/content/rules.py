"""What a content rule is, what it looks at, and how rules are made and put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.errors import ConfigError
from perdure.faults.documents import LIMIT, load, text_of
from perdure.faults.headers import read
from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self, TypeAlias

    Answer: TypeAlias = Fault | FaultKind | None
    Reads: TypeAlias = Literal["whole", "start"]

__all__ = ["Reply", "Rule", "every", "rule"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as a rule sees it: its status, its headers, and its body as far as it was looked at.

    `headers` is whatever the client library has. `body` is not longer than 65,536 bytes; `complete` (True) says
    whether that is all of it. Immutable, safe to share everywhere.
    """

    status: int
    headers: Any
    body: bytes
    complete: bool = True
    _given: Any = field(default=None, init=False, repr=False)
    _read: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, document: object, status: int = 200, headers: object = None) -> Self:
        """Make the reply of a JSON document that is already parsed. Safe from any thread or task."""
        reply = cls(status, headers, b"")
        object.__setattr__(reply, "_given", document)
        return reply

    def json(self) -> Any:
        """Give the JSON document in the body; None when it is none, or longer than 65,536 bytes.

        Never raises. Safe from any thread or task.
        """
        if self._given is not None:
            return self._given
        if not self._read:
            self._read.append(load(self.body))
        return self._read[0]

    def text(self) -> str:
        """Give the body as text, with a replacement for what is none. Never raises. Safe from any thread."""
        return text_of(self.body)

    def header(self, name: str) -> str:
        """Give the first value of a header field, "" when it is missing. Never raises. Safe from any thread."""
        return next(iter(read(self.headers, name.lower()).get(name.lower(), ())), "")


@dataclass(frozen=True, slots=True)
class Rule:
    """Looks into an answer whose status says little, and says what failure it is; None when it is well.

    `reads` is how much of the body it needs: "whole" (up to 65,536 bytes), or "start", for streams: the first
    events or lines, before any content was delivered. Made by `rule` and `every`; immutable, safe to share
    everywhere.
    """

    name: str
    reads: Reads
    judge: Callable[[Reply], Fault | None] = field(repr=False)
    enough: Callable[[bytes], bool] | None = field(default=None, repr=False)

    def __call__(self, reply: Reply) -> Fault | None:
        """Judge a reply. Never raises. Safe from any thread or task."""
        return self.judge(reply)

    def is_enough(self, start: bytes) -> bool:
        """Whether these first bytes of a body decide: more of it would not change the answer.

        A rule that reads the whole body needs all of it, up to 65,536 bytes. Never raises. Safe from any thread.
        """
        if len(start) >= LIMIT:
            return True
        if self.enough is not None:
            return self.enough(start)
        return self.reads == "start" and bool(start)


def rule(fn: Callable[[Reply], Answer], /, *, reads: Reads = "whole", name: str | None = None) -> Rule:
    """Make a rule of a function of the `Reply`, which gives a `Fault`, a `FaultKind`, or None for "all is well".

        @perdure.content.rule
        def busy(reply): return FaultKind.THROTTLED if reply.body == b"BUSY" else None

    `reads` ("whole"): how much of the body it needs; "start" for streams. `name` (the function's): for people. A
    function that raises or returns something else is reported once as a RuntimeWarning and passed over. The rule
    is as safe for threads as the function.

    Raises:
        ConfigError: `fn` cannot be called or is a coroutine function, or `reads` is another word.
    """
    if reads not in ("whole", "start"):
        raise ConfigError(f'reads must be "whole" or "start", got {reads!r}')
    from perdure.colour import is_coroutine_function

    if not callable(fn) or is_coroutine_function(fn):
        raise ConfigError(f"rule must be a plain function of the Reply, got {fn!r}")
    if isinstance(fn, Rule):
        return fn
    called: str = getattr(fn, "__name__", type(fn).__name__) if name is None else name
    return Rule(called, reads, _Guarded(fn, called))


def every(*rules: Rule) -> Rule:
    """Put rules together: they are asked in order, and the first that sees a failure decides.

    It reads the whole body if one of them does; rules that read the start see no more than they need. Safe from
    any thread or task, if the rules are.

    Raises:
        ConfigError: no rule is given, or one of them is none.
    """
    for one in rules:
        if not isinstance(one, Rule):
            raise ConfigError(f"every() takes rules, got {one!r}: wrap functions in rule()")
    if not rules:
        raise ConfigError("every() needs at least one rule")
    reads: Reads = "whole" if any(one.reads == "whole" for one in rules) else "start"
    return Rule(" + ".join(one.name for one in rules), reads, _Every(rules), _AllEnough(rules))


@dataclass(frozen=True, slots=True)
class _Every:
    rules: tuple[Rule, ...]

    def __call__(self, reply: Reply) -> Fault | None:
        return next((fault for one in self.rules if (fault := one(reply)) is not None), None)


@dataclass(frozen=True, slots=True)
class _AllEnough:
    rules: tuple[Rule, ...]

    def __call__(self, start: bytes) -> bool:
        return all(one.is_enough(start) for one in self.rules)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A user's function: whatever it does, the answer reaches the caller."""

    fn: Callable[[Reply], object]
    name: str
    complaints: list[str] = field(default_factory=list, repr=False, compare=False)

    def __call__(self, reply: Reply) -> Fault | None:
        try:
            answer = self.fn(reply)
        except Exception as error:  # noqa: BLE001 - the answer at hand matters more than a broken rule
            self._complain(f"raised {error!r}")
            return None
        if answer is None or isinstance(answer, Fault):
            return answer
        if isinstance(answer, FaultKind):
            return Fault(answer, None, f"HTTP {reply.status}, {self.name}")
        self._complain(f"returned {answer!r}, not a Fault, a FaultKind or None")
        return None

    def _complain(self, what: str) -> None:
        if not self.complaints:
            from warnings import warn

            self.complaints.append(what)
            warn(f"content rule {self.name} {what}; it is passed over", RuntimeWarning, stacklevel=2)
