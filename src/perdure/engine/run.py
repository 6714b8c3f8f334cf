"""The state of one call from its first failure on (or, on the general path, from its start).

The drivers (sync, async, blocks) only act: they call the function, and wait. Everything in between is decided
here, once for all of them: ``failure`` after an attempt that raised, ``success`` after one that returned,
``next_attempt`` before one that follows a wait. How a call ends is in ``perdure.engine.ending``.
"""

from __future__ import annotations

import os
from types import CodeType

from perdure import clock, events
from perdure.colour import ONE_SHOT, started
from perdure.core.decide import Again, Stop, decide
from perdure.engine import ambient, ending, hooks, logs, nesting, responses, shutdown, telling
from perdure.engine.naming import operation
from perdure.engine.trail import TEXT, Trail, dict_of, note_seen, trim
from perdure.errors import DeadlineExceeded, FaultyResponse, ResultRejected
from perdure.faults import Fault, FaultKind, Safety, classify, safety_of
from perdure.faults.rules import classify_unmarked
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.engine.queueing import Pause
    from perdure.engine.trail import RawRecord
    from perdure.parts import Hedge
    from perdure.policies import Retry

_STALE, _AMBIGUOUS = FaultKind.STALE, FaultKind.AMBIGUOUS
_TRANSIENT, _THROTTLED = FaultKind.TRANSIENT, FaultKind.THROTTLED
_GROUP: type[Exception] = ExceptionGroup
REJECTED = Fault(FaultKind.TRANSIENT, None, "the result was rejected")
_NONE: list[RawRecord] = []  # never changed: a run that has records has a list of its own
KEPT = 100
"""So many records are kept: the first tenth, and the last of the rest."""

# The descriptors of BaseException itself: some classes answer for these names in ways of their own.
_cause_of: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__cause__"].__get__
_context_of: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__context__"].__get__
_carriers: dict[type, bool] = {}

END_OF_ITEMS = (StopIteration, StopAsyncIteration)  # what a guarded __next__ ends with is no failure

_UNREPLAYABLE = Stop(StopReason.UNREPLAYABLE)
_SHUTDOWN = Stop(StopReason.SHUTDOWN)
_NESTED = Stop(StopReason.NESTED)
_DEPENDENCY = frozenset({StopReason.BUDGET, StopReason.BREAKER, StopReason.GATE})
"""Why a dependency takes no further attempt, also where the last one gave a rejected result."""


def read_environment() -> bool:
    """Whether ``PERDURE_DISABLED`` makes every call of this process a single attempt."""
    return os.environ.get("PERDURE_DISABLED", "0") not in {"", "0"}


disabled_by_environment = read_environment()


class Run:
    """One call in progress; belongs to the thread or task that makes it."""

    guard: Guard | None = None
    """The dependency that is called; None for a bare Retry."""
    hedge: Hedge | None = None

    __slots__ = (
        *(
            "policy",
            "fn",
            "args",
            "kwargs",
            "start",
            "began",
            "made",
            "number",
            "allowed",
            "records",
            "delay",
        ),
        *("error", "u", "refreshed", "stop", "call_id", "waits", "disabled"),
    )

    def __init__(
        self,
        policy: Retry,
        fn: Callable[..., Any] | CodeType,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        start: float | None = None,
        number: int = 0,
    ) -> None:
        self.policy: Retry = policy
        self.fn: Any = fn  # a function; of a block, its code
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        # When the call and the attempt began; None: no clock was read.
        self.start: float | None = start
        self.began: float | None = start
        self.number: int = number
        self.allowed: int | None = policy.attempts
        self.records: list[RawRecord] = _NONE
        self.error: Exception | None = None
        self.made: int | None = None  # how many trails there were when the attempt began
        self.delay: float | None = None
        self.u: float | None = None
        self.refreshed: bool = False
        self.disabled: bool = False
        self.waits: list[float] | None = None
        self.stop: StopReason | None = None
        self.call_id: str = ""
        if ambient.MODE.get() is not None or disabled_by_environment:
            self._obey(ambient.mode() or ambient.Mode())

    def _obey(self, mode: ambient.Mode) -> None:
        self.waits = mode.waits
        self.disabled = mode.disabled or disabled_by_environment
        if self.disabled or (mode.single and self.policy.nested != "both"):
            self.allowed = 1

    def begin(self) -> None:
        """Start a call on the general path; raises where no call may begin."""
        start = self.start = self.began = clock.monotonic()
        if events.listeners:
            telling.call_started(self)
        if shutdown.closing:
            ending.refuse(self, shutdown.refusal(operation(self)), StopReason.SHUTDOWN)
        end = ambient.nearest()
        if end is not None and end.at is not None and end.at <= start:
            ending.refuse(
                self, DeadlineExceeded("the deadline had passed before the call"), StopReason.DEADLINE
            )

    def admit(self) -> Generator[Pause, None, object] | None:
        """Have a dependency admit the next attempt; a bare Retry has none."""
        return None

    def next_attempt(self) -> Callable[[], object] | None:
        """Count an attempt that begins now; returns what must be refreshed first, if anything.

        After a wait, where no attempt may begin any more, ``stop`` is set and the last error is to be raised.
        """
        refresh = None
        if self.error is not None:
            now = self.began = clock.monotonic()
            deadline = self.policy.deadline
            late = deadline is not None and now > self.since() + deadline
            if late or shutdown.closing or ambient.ENDS.get() is not None:
                self._end_if_late(now, late=late)
                if self.stop is not None:
                    return None
            self.error = None
            if not self.delay and self.records[-1][5] == "refresh":
                refresh = self.policy.refresh
        self.number += 1
        self.made = nesting.made
        if events.listeners:
            telling.attempt_started(self)
        return refresh

    def failure(self, error: BaseException) -> bool:
        """Decide after an attempt that raised: True to wait ``delay`` and go on, False to raise the error."""
        now = clock.monotonic()
        if not isinstance(error, Exception) or isinstance(error, END_OF_ITEMS):
            ending.passed(self, error, now)
            return False
        # Verdicts and marks lie in the error's dict, or in that of what caused it.
        marked = _cause_of(error) is not None or bool(dict_of(error)) or isinstance(error, _GROUP)
        if marked or self.records:
            trim(error, self, marked=marked)
        if type(error) is FaultyResponse and not marked:
            fault = error.fault or classify(error)
        else:
            fault = classify(error) if marked else classify_unmarked(error)
        decision = self._judge(error, fault, now, marked=marked)
        if type(decision) is Again:
            return self._goes_on(error, fault, decision, now)
        return self._stops(error, fault, decision, now)  # type: ignore[arg-type] # what is not Again is Stop

    def success(self, value: object) -> bool:
        """Take a returned value: True when the call ends with it.

        False: ``reject=`` refuses it. Then wait ``delay`` and go on or, where ``stop`` is set, raise the error.
        """
        if self.policy.reject is not None and not self.accepts(value):
            return False
        if self.stop is None:
            self.stop = StopReason.SUCCESS
            if self.records and type(value) in responses.KINDS:
                responses.note(value, Trail(self, StopReason.SUCCESS, clock.monotonic(), marked=False))
            if events.listeners or (self.records and logs.wants(20)):  # INFO
                ending.succeeded(self)
        return True

    def key_text(self) -> str | None:
        """The key of the dependency that is called."""
        return None

    def succeed(self) -> None:
        """The attempt of a block or generator ended well, and the call with it."""
        ending.succeeded(self)

    def abandon(self) -> None:
        """Give back what an attempt that will not be made has taken; a bare Retry takes nothing."""

    def accepts(self, value: object) -> bool:
        """Whether the value ends the call; False as for ``success``."""
        reject = self.policy.reject
        rejected = reject is not None and hooks.agrees(reject, "reject=", value)
        return not rejected or self._ends_rejected(value)

    def attempt_timeout(self) -> float | None:
        """The policy's own bound on this attempt in seconds, shrunk on each retry."""
        policy = self.policy
        if policy.attempt_timeout is None or policy.shrink == 1.0:
            return policy.attempt_timeout
        return float(policy.attempt_timeout * policy.shrink ** (self.number - 1))

    def left_of_total(self) -> float | None:
        """Seconds until the end of the whole call; None where it has none, as that of a bare Retry."""
        return None

    def take_error(self) -> Exception:
        """Hand over the error that the call ends with, keeping none."""
        error, self.error = self.error, None
        return RuntimeError("no error to raise") if error is None else error  # some errors are false

    def since(self) -> float:
        """When the call began; without a deadline, which reads no clock before, when it first failed."""
        if self.start is None:
            self.start = clock.monotonic()
        return self.start

    def _wants(self, error: Exception, fault: Fault, *, marked: bool) -> bool:
        """Whether the failure is one that the policy retries."""
        kind, selector = fault.kind, self.policy.selector
        if selector is None or type(error) is ResultRejected:
            return kind is _TRANSIENT or kind is _AMBIGUOUS or kind is _THROTTLED
        if selector.only_types is not None and not marked:
            return isinstance(error, selector.only_types)
        return selector(error, fault)

    def _judge(self, error: Exception, fault: Fault, now: float, *, marked: bool) -> Again | Stop:
        """Decide after a failure."""
        return self._decide(error, fault, now, self._wants(error, fault, marked=marked), marked=marked)

    def _decide(
        self, error: Exception, fault: Fault, now: float, wanted: bool, *, marked: bool
    ) -> Again | Stop:
        """Gather what the decision needs, and decide. Flat, as it runs at every failure."""
        policy, kind = self.policy, fault.kind
        if self.start is None:
            self.start = now
        if marked and policy.nested != "both" and nesting.enclosed(error, self) is not None:
            return _NESTED
        if policy.is_coherent and self.u is None:
            self.u = clock.random()
        decision = decide(
            policy,
            fault,
            self.number,
            self.allowed,
            wanted,
            kind is not _AMBIGUOUS or self._is_safe(error, marked=marked),
            kind is _STALE and self._may_refresh(error, fault),
            now,
            self.start,
            None if ambient.ENDS.get() is None else ambient.remember(error),
            self.delay,
            clock.random,
            self.u,
        )
        if type(decision) is Again:
            if shutdown.closing:
                return _SHUTDOWN
            for one in self.args:
                if type(one) in ONE_SHOT and started(one):
                    return _UNREPLAYABLE
            if self.kwargs and any(started(one) for one in self.kwargs.values()):
                return _UNREPLAYABLE
        return decision

    def _goes_on(self, error: Exception, fault: Fault, again: Again, now: float) -> bool:
        delay = self.delay = again.delay
        self.error = error
        if type(error) in responses.HOLDERS:
            responses.let_go(error)
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - an error that cannot be printed is still an error
            text = "(cannot be printed)"
        if len(text) > TEXT:
            text = text[:TEXT]
        record = (self.number, self.began, now, fault, delay, again.source, type(error), text)
        if not self.records:
            self.records = [record]  # a list of exactly one: it counts where many calls wait
        elif len(self.records) < KEPT:
            self.records.append(record)
        else:
            self.records[KEPT // 10 :] = [*self.records[KEPT // 10 + 1 :], record]
        if type(self.fn) is CodeType:
            note_seen(error)
        if again.source == "refresh":
            self.refreshed = True
        if logs.wants(20):  # INFO
            logs.retrying(self, error, fault)
        if events.listeners:
            telling.will_retry(self, error, fault, again, now)
        return True

    def _stops(self, error: Exception, fault: Fault, stop: Stop, now: float) -> bool:
        last = (self.number, self.began, now, fault, None, None, type(error), text_of(error))
        self.records = [
            *self.records[: KEPT // 10],
            *self.records[KEPT // 10 :][1 - KEPT + KEPT // 10 :],
            last,
        ]
        ending.give_up(self, error, fault, stop, now)
        return False

    def _may_refresh(self, error: Exception, fault: Fault) -> bool:
        selector = self.policy.selector
        if self.policy.refresh is None or self.refreshed:
            return False
        return selector is None or not selector.denies(error, fault)

    def _is_safe(self, error: Exception, *, marked: bool) -> bool:
        safety = self.policy.safety
        if safety is None and (marked or _context_of(error) is not None or _may_carry(type(error))):
            safety = safety_of(error)  # a request is an attribute of the error, or of one under it
        return safety is not Safety.UNSAFE

    def _end_if_late(self, now: float, *, late: bool) -> None:
        """After a wait that was cut by a shutdown, or that went on too long, the call ends with its last error."""
        end = ambient.nearest_at()
        if shutdown.closing:
            ending.end_late(self, _SHUTDOWN, now)
        elif late or (end is not None and now >= end):
            ending.end_late(self, Stop(StopReason.DEADLINE, 0.0), now)

    def _ends_rejected(self, value: object) -> bool:
        """A rejected result: False to go on, or to raise ``error`` where ``stop`` is set; True to return it."""
        error: Exception = ResultRejected(value)
        now = clock.monotonic()
        fault = said_of(self.policy.reject, value) or REJECTED
        decision = self._judge(error, fault, now, marked=False)
        if isinstance(decision, Again):
            self._goes_on(error, fault, decision, now)
            return False
        if decision.reason not in _DEPENDENCY:
            decision = Stop(StopReason.REJECTED, decision.delay)
        self._stops(error, fault, decision, now)
        if self.policy.on_exhausted == "return":
            return True
        self.error = error
        return False


def said_of(reject: object, value: object) -> Fault | None:
    """What a rule of ``perdure.content`` takes a rejected result for; other predicates do not say."""
    say = getattr(reject, "__perdure_fault__", None)
    if say is None:
        return None
    found = hooks.ask(say, "reject=", value)
    return found if isinstance(found, Fault) else None


def _may_carry(kind: type) -> bool:
    """Whether errors of a class may carry a request although their dict is empty (slots, properties)."""
    known = _carriers.get(kind)
    if known is None:
        if len(_carriers) >= 1000:  # classes made at run time
            _carriers.clear()
        named = any("request" in vars(cls) or "response" in vars(cls) for cls in kind.__mro__)
        known = _carriers[kind] = named or "__getattr__" in dir(kind)
    return known


def text_of(error: BaseException) -> str:
    """What the error says; an error that cannot be printed is still an error."""
    try:
        return str(error)[:TEXT]
    except Exception:  # noqa: BLE001 - as it says
        return "(cannot be printed)"
