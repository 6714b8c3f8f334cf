"""What surrounds a call: the nearest end, and the modes that tests and outer layers set.

An **end** is a moment after which work is pointless to its caller. It is held in a context variable as an
object that is closed when its block ends, so that a task which outlives the block has no end. Ends are
published only where the user set one: ``perdure.deadline(seconds)`` (see ``perdure.engine.deadlines``) and
attempt timeouts.
"""

from __future__ import annotations

from contextvars import ContextVar

from perdure import bypass, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from typing import Any, TypeVar, overload

    from perdure.engine.blocks import Attempt
    from perdure.engine.run import Run
    from perdure.engine.timers import Lease, TrioLease

    D = TypeVar("D")
else:
    from perdure.bypass import overload

__all__ = ["End", "Mode", "nearest", "time_left"]


class End:
    """A moment on the monotonic clock, with the end around it; ``at`` None lifts all ends around it.

    An attempt that is bounded by the end of another task borrows it: it holds as long as that end is open, then
    the attempt has its own bound back, ``own``.
    """

    __slots__ = ("around", "at", "borrowers", "last_failure", "lease", "lender", "open", "own")

    def __init__(self, at: float | None, around: End | None, lease: Lease | TrioLease | None = None) -> None:
        self.lender: End | None = None
        self.own: float | None = None
        self.borrowers: list[TrioLease] | None = None  # what has to be told when it is closed
        self.at = at
        self.around = around
        self.lease = lease  # what interrupts the task that set this end
        self.open = True
        self.last_failure: BaseException | None = None

    def interrupts(self, task: object) -> bool:
        """Whether the end itself interrupts this task; in other tasks that see it, guarded calls see to it."""
        return self.lease is not None and self.lease.task is task


class CallEnd:
    """The end of a whole sync call, as a fused wrapper publishes it: it interrupts nothing and stands alone."""

    __slots__ = ("__dict__", "at", "token")

    around = lease = lender = None
    last_failure: BaseException | None = None
    at: float
    token: Token[Any] | None

    @property
    def open(self) -> bool:
        """Whether the call goes on."""
        return self.token is not None

    def interrupts(self, _task: object) -> bool:
        """Whether it interrupts a task: it does not."""
        return False


class Mode:
    """How calls in this context behave: ``single`` attempts (disabled, or an outer layer retries), no waits."""

    __slots__ = ("around", "disabled", "open", "owner", "single", "waits")

    def __init__(
        self, *, single: bool = False, disabled: bool = False, waits: list[float] | None = None
    ) -> None:
        self.single = single
        self.disabled = disabled
        self.waits = waits
        self.open = True
        self.around: Mode | None = None
        self.owner: object = None  # whoever set it and will close it


ENDS: ContextVar[End | None] = ContextVar("perdure_end", default=None)
MODE: ContextVar[Mode | None] = ContextVar("perdure_mode", default=None)
BLOCK: ContextVar[Attempt | None] = ContextVar("perdure_block", default=None)
"""The block attempt that is entered in this context."""


def nearest() -> End | None:
    """The open end that comes first, or None."""
    end, found = ENDS.get(), None
    while end is not None:
        if end.lender is not None and not end.lender.open:
            give_back(end)
        if end.open:
            if end.at is None:
                break
            if found is None or found.at is None or end.at < found.at:
                found = end
        end = end.around
    return found


def borrow(end: End, lender: End, own: float | None, lease: Lease | TrioLease | None) -> None:
    """Have ``end`` hold only as long as its ``lender`` is open, and be at ``own`` afterwards."""
    end.lender, end.own = lender, own
    if lease is None:
        return
    lease.end = end
    from perdure.engine.timers import TrioLease

    if isinstance(lease, TrioLease) and isinstance(lender, End):
        lender.borrowers = [*(lender.borrowers or ()), lease]


def give_back(end: End) -> None:
    """The end that this one was borrowed from is closed: from here on it is what it would have been by itself."""
    end.lender = None
    if end.own is None:
        end.open = False
    else:
        end.at = end.own


def nearest_at() -> float | None:
    """When the nearest end comes, on the monotonic clock, or None."""
    end = nearest()
    return None if end is None else end.at


def remember(error: BaseException) -> float | None:
    """When the nearest end comes; it keeps the error, as the cause of a DeadlineExceeded, until its block ends."""
    end = nearest()
    if end is None:
        return None
    end.last_failure = error
    return end.at


@overload
def time_left() -> float | None: ...
@overload
def time_left(default: D) -> float | D: ...
def time_left(default: Any = None) -> Any:
    """Seconds until the nearest end of the surrounding call or block, at least 0; ``default`` without an end.

    Hand it to client libraries that take a timeout: a plain function cannot be interrupted, so what it calls
    must know. Ends are attempt timeouts and ``perdure.deadline`` blocks; ``Retry.deadline`` is not one, as it
    never shortens an attempt. Safe from any thread or task; each sees its own ends.
    """
    at = nearest_at()
    return default if at is None else max(0.0, at - clock.monotonic())


def bound(own: float | None) -> tuple[float | None, End | None]:
    """How long async work may take here: ``own`` seconds, or until a nearer end that another task set.

    The end comes with it where it is the nearer one. An end that this task set interrupts by itself.
    """
    from perdure.engine.waiting import current_task

    end = nearest()
    if end is None or end.at is None or end.interrupts(current_task()):
        return own, None
    left = max(0.0, end.at - clock.monotonic())
    return (left, end) if own is None or left < own else (own, None)


def publish(at: float | None, lease: Lease | TrioLease | None = None) -> tuple[End, Token[End | None]]:
    """Make ``at`` an end for what this context runs until ``retract``.

    Meanwhile calls take the general path, on which they look for ends: also those in tasks begun here.
    """
    bypass.open_end()
    end = End(at, ENDS.get(), lease)
    return end, ENDS.set(end)


def retract(published: tuple[End, Token[End | None]]) -> None:
    """Close an end; tolerates a block that is left in another context than it was entered in."""
    end, token = published
    bypass.close_end()
    end.open = False
    end.last_failure = None
    borrowers, end.borrowers = end.borrowers, None
    for lease in borrowers or ():
        lease.let_go()
    try:
        ENDS.reset(token)
    except ValueError:
        if ENDS.get() is end:
            ENDS.set(end.around)


def _alone() -> None:
    """Keep the ends of this context only, in a forked child: the other threads are not there."""
    end, count = ENDS.get(), 0
    while end is not None:
        count, end = count + bool(end.open), end.around
    del bypass.OPEN_ENDS[count:]


bypass.after_fork(_alone)


def quieten(run: Run) -> tuple[Mode, Token[Mode | None]]:
    """Make guarded calls inside this one single-attempt until ``loosen``: the outer layer retries."""
    around = mode()
    quiet = Mode(single=True, disabled=run.disabled, waits=None if around is None else around.waits)
    quiet.around = around
    return quiet, MODE.set(quiet)


def loosen(quietened: tuple[Mode, Token[Mode | None]]) -> None:
    """Take ``quieten`` back; in another context than it was called in, by closing the mode."""
    quiet, token = quietened
    quiet.open = False
    try:
        MODE.reset(token)
    except ValueError:
        pass  # what is set here is not ours


def mode() -> Mode | None:
    """The open mode that holds here."""
    found = MODE.get()
    while found is not None and not found.open:
        found = found.around
    return found
