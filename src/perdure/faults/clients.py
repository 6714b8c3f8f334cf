"""What the tables of the HTTP clients share: what lies hidden under their exceptions, and what was not sent."""

from __future__ import annotations

import re

from perdure.faults.chain import LIMIT
from perdure.faults.duck import loaded_body
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.network import was_in_handshake
from perdure.faults.posix import timeout_error
from perdure.faults.rules import known_fault
from perdure.faults.safety import method_of, peek, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeGuard

__all__ = [
    "BAD_URL",
    "CONNECT_TIMED_OUT",
    "NO_CONNECTION",
    "POOL_EXHAUSTED",
    "READ_TIMED_OUT",
    "TOO_MANY_REDIRECTS",
    "as_below",
    "beneath",
    "cut",
    "fault_beneath",
    "fault_of_proxy",
    "in_handshake",
    "local",
    "unsent",
    "with_response",
]


def cut(why: str) -> Fault:
    """Make the fault of an answer that was lost or damaged on its way."""
    return Fault(FaultKind.AMBIGUOUS, None, why)


def local(why: str) -> Fault:
    """Make the fault of a wrong use of the client: the dependency was not asked."""
    return Fault(FaultKind.PERMANENT, None, f"local: {why}")


NO_CONNECTION = Fault(FaultKind.TRANSIENT, None, "could not connect")
CONNECT_TIMED_OUT = Fault(FaultKind.TRANSIENT, None, "connect timed out")
READ_TIMED_OUT = cut("read timed out")
POOL_EXHAUSTED = Fault(FaultKind.TRANSIENT, None, "local: no free connection in the pool")
"""Worth another attempt, and no failure of the dependency: every attempt that holds a connection is ours."""
TOO_MANY_REDIRECTS = Fault(FaultKind.PERMANENT, None, "too many redirects")
BAD_URL = local("invalid URL")


def beneath(exc: BaseException) -> Iterator[Exception]:
    """Yield what `exc` was made of, nearest first: exceptions in its arguments, its cause, all under these.

    Where there is neither, the context, even one that `from None` hides: anyio leaves the TLS error there.
    Cancellations are left out, as timeouts are made of them. Bounded as `chain` is.
    """
    seen: set[int] = set()
    waiting = [exc]
    while waiting and len(seen) < LIMIT:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        if isinstance(link, Exception) and link is not exc:
            yield link
        inside = [part for part in (*link.args, peek(link, "reason"), link.__cause__) if is_exception(part)]
        waiting.extend(reversed(inside or [part for part in (link.__context__,) if part is not None]))


def is_exception(part: object) -> TypeGuard[BaseException]:
    """Whether an argument of an exception is one itself."""
    return isinstance(part, BaseException)


def unsent(otherwise: Fault) -> Callable[[BaseException], Fault]:
    """Make the rule for errors that come before the request left: permanent or transient, never ambiguous."""

    def rule(exc: BaseException) -> Fault:
        for link in beneath(exc):
            fault = known_fault(link) if isinstance(link, OSError) else None
            if fault is not None:
                ambiguous = fault.kind is FaultKind.AMBIGUOUS
                return Fault(FaultKind.TRANSIENT, None, fault.why) if ambiguous else fault
        return otherwise

    return rule


def as_below(otherwise: Fault) -> Callable[[BaseException], Fault]:
    """Make the rule for wrappers: they are what the nearest known exception under them is."""
    return lambda exc: fault_beneath(exc) or otherwise


def fault_beneath(exc: BaseException) -> Fault | None:
    """Classify by the nearest exception under `exc` that says something; None when there is none."""
    for link in beneath(exc):
        fault = known_fault(link)
        if fault is not None and fault.kind is not FaultKind.NEUTRAL and not fault.why.startswith("bug: "):
            return fault
    return None


def in_handshake(exc: BaseException) -> bool:
    """Whether `exc` comes from a TLS handshake: nothing was sent yet."""
    return any(was_in_handshake(link) or _says_handshake(link) for link in beneath(exc))


def _says_handshake(exc: BaseException) -> bool:
    return isinstance(exc, TimeoutError) and timeout_error(exc).kind is FaultKind.TRANSIENT


def with_response(exc: BaseException) -> Fault | None:
    """Classify an exception that holds a response by all that is known of it; None when it holds none.

    The body counts where it is in memory. It is never read from the connection here.
    """
    response = peek(exc, "response")
    status = peek(response, "status_code")
    if status is None:
        return None
    method = method_of(request_of(exc))
    return fault_of_status(status, peek(response, "headers"), method, loaded_body(response))


_PROXY_STATUS = re.compile(r"\s*(?:Tunnel connection failed: )?([1-5]\d\d)\b")


def fault_of_proxy(said: object, headers: object = None) -> Fault | None:
    """Classify a proxy's refusal to connect, by its status or a message that begins with it; else None."""
    found = _PROXY_STATUS.match(str(said))
    if found is None:
        return None
    fault = fault_of_status(int(found[1]), headers)
    kind = FaultKind.TRANSIENT if fault.kind is FaultKind.AMBIGUOUS else fault.kind
    return Fault(kind, fault.hint, f"proxy: {fault.why}")
