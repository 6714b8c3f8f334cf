"""Every error perdure raises on its own account, in one tree.

::

    PerdureError
    ├── Refused                      a call that was not made, to spare the dependency or the caller
    │   ├── BreakerOpen              the breaker of the dependency is open
    │   ├── Overloaded               the gate saw congestion
    │   ├── RateLimited              the rate limit has no room within the allowed wait
    │   ├── BulkheadFull             all places are taken
    │   ├── Isolated                 an operator isolated the dependency
    │   └── ShuttingDown             the process is closing
    ├── DeadlineExceeded             the end of the caller's time came (also a TimeoutError)
    ├── AttemptTimeout               one attempt took too long (also a TimeoutError)
    ├── ResultRejected               the last result was still one that ``reject=`` refuses
    ├── FaultyResponse               an HTTP integration took the response for a failure
    └── ConfigError                  a policy or option that cannot work (also a ValueError)

A guarded call that fails raises the function's own last exception, not one of these: they only stand for
calls that perdure refused, cut short or could not accept. All of them pickle and copy.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.faults import Fault

__all__ = [
    "AttemptTimeout",
    "BreakerOpen",
    "BulkheadFull",
    "ConfigError",
    "DeadlineExceeded",
    "FaultyResponse",
    "Isolated",
    "Overloaded",
    "PerdureError",
    "RateLimited",
    "Refused",
    "ResultRejected",
    "ShuttingDown",
]


class PerdureError(Exception):
    """Base of all errors that perdure raises on its own account.

    Catch it to handle every refusal and time limit of perdure in one place; the failures of your own
    functions are not among them. Instances are plain values: safe to pass between threads and tasks.
    """


class Refused(PerdureError):
    """A call was refused before it was made; nothing was sent.

    ``dependency`` is the name of what was protected (None for a bare function), ``reason`` says why in
    words, ``retry_after`` is the number of seconds after which another call makes sense (None: unknown).
    It does not mean that the dependency failed: breakers and budgets do not count it.
    """

    # The attributes read ``args``: a refusal that is raised many times a second costs one object, no dict.
    __slots__ = ()
    _says = "refused"

    def __init__(
        self, dependency: str | None = None, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(dependency, reason, retry_after)

    @property
    def dependency(self) -> str | None:
        """The name of what was protected; None for a bare function."""
        return self.args[0] if self.args else None

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.args[1] if len(self.args) > 1 else ""

    @property
    def retry_after(self) -> float | None:
        """Seconds after which another call makes sense; None: unknown."""
        return self.args[2] if len(self.args) > 2 else None

    def __str__(self) -> str:
        name = f"{self.dependency}: " if self.dependency else ""
        why = f": {self.reason}" if self.reason else ""
        after = "" if self.retry_after is None else f"; call again after {self.retry_after:.3g} s"
        return f"{name}{self._says}{why}{after}"


class BreakerOpen(Refused):
    """The breaker is open: recent calls failed, so this one was not made.

    The way out is to wait ``retry_after`` seconds, or a fallback.
    """

    _says = "refused, the breaker is open"


class Overloaded(Refused):
    """The gate saw signs of congestion and admits fewer calls for now.

    The way out is to shed or delay work; repeating at once makes the congestion last.
    """

    _says = "refused, the dependency is overloaded"


class RateLimited(Refused):
    """The rate limit has no room for this call within the wait that is allowed."""

    _says = "refused, over the rate limit"


class BulkheadFull(Refused):
    """All places of the bulkhead, and of its queue, are taken."""

    _says = "refused, the bulkhead is full"


class Isolated(Refused):
    """An operator took the dependency out of use; ``restore()`` brings it back."""

    _says = "refused, isolated by an operator"


class ShuttingDown(Refused):
    """``perdure.close()`` was called: running calls may finish, new ones are refused."""

    _says = "refused, shutting down"


class DeadlineExceeded(PerdureError, TimeoutError):
    """The caller's time is over: an ambient end (``perdure.deadline``, ``Timeouts.total``) was reached.

    Its cause is the last failure before the end, where there was one. It says nothing about the health of
    the dependency; give the call more time, or do less in it.
    """

    def __init__(self, message: str = "the deadline was exceeded") -> None:
        super().__init__(message)


class AttemptTimeout(PerdureError, TimeoutError):
    """One attempt ran longer than its attempt timeout and was interrupted.

    The effect of the attempt may have happened (the fault is ambiguous). ``timeout`` is the bound in
    seconds that it ran into.
    """

    def __init__(self, message: str = "the attempt timed out", *, timeout: float | None = None) -> None:
        super().__init__(message)
        self.timeout = timeout


class ResultRejected(PerdureError):
    """The function returned, but every result was one that ``reject=`` refuses; ``result`` is the last."""

    def __init__(self, result: object = None) -> None:
        super().__init__(result)
        self.result = result

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the result, or with its text where that does not pickle."""
        import pickle

        try:
            pickle.dumps(self.result)
        except Exception:  # noqa: BLE001 - anything can go wrong in there
            return type(self), (repr(self.result),), vars(self) | {"result": repr(self.result)}
        return type(self), (self.result,), vars(self)

    def __str__(self) -> str:
        try:
            shown = repr(self.result)
        except Exception:  # noqa: BLE001 - a result that cannot be printed is still a result
            shown = f"{type(self.result).__name__} (cannot be printed)"
        return f"result rejected: {shown if len(shown) <= 200 else shown[:200] + '...'}"


class FaultyResponse(PerdureError):
    """A response that an HTTP integration takes for a failure: its status or its content says so.

    ``response`` is the client's own object, ``status`` its status, ``fault`` what it was taken for. It is what
    ``on=``, ``never=`` and listeners see while a request is retried. When the attempts are used up the client
    gives back the last response, as without perdure; with ``raise_on_exhausted=True`` it raises its own error for
    statuses, and this one for content.
    """

    # In slots: an error whose dict is empty bears no marks, which spares the engine a closer look.
    __slots__ = ("aclose", "close", "fault", "response", "status")

    def __init__(
        self,
        message: str = "the response is a failure",
        response: Any = None,
        *,
        status: int | None = None,
        fault: Fault | None = None,
        close: Callable[[], object] | None = None,
        aclose: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.response: Any = response
        self.status: int | None = status
        self.fault: Fault | None = fault
        # What lets go of the connection under a response that will not be looked at; None: it is free already.
        self.close: Callable[[], object] | None = close
        self.aclose: Callable[[], Any] | None = aclose

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the response, which holds a connection."""
        return _faulty, (type(self), str(self), self.status, self.fault), vars(self)


def _faulty(
    kind: type[FaultyResponse], message: str, status: int | None, fault: Fault | None
) -> FaultyResponse:
    return kind(message, status=status, fault=fault)


class ConfigError(PerdureError, ValueError):
    """A policy, option or file that cannot work; the message names the field, its range and the value."""
