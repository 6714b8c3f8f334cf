"""What surrounds a call: the nearest end, and the modes that tests and outer layers set.

An **end** is a moment after which work is pointless to its caller. It is held in a context variable as an
object that is closed when its block ends, so that a task which outlives the block has no end. Ends are
published only where the user set one: ``perdure.deadline(seconds)`` and attempt timeouts.
"""

from __future__ import annotations

from contextvars import ContextVar

from perdure import bypass, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType
    from typing import Any, Self, TypeVar, overload

    from perdure.engine.blocks import Attempt
    from perdure.engine.run import Run
    from perdure.engine.timers import Lease, TrioLease

    D = TypeVar("D")
else:
    from perdure.bypass import overload

__all__ = ["Deadline", "End", "Mode", "deadline", "nearest", "no_deadline", "time_left"]


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


class Deadline:
    """The context manager behind ``perdure.deadline`` and ``perdure.no_deadline``."""

    __slots__ = ("_lease", "_length", "_paused", "_published", "_shield", "was_exceeded")

    def __init__(self, length: float | None) -> None:
        self._length = length
        self._lease: Lease | TrioLease | None = None
        self._paused: list[Lease | TrioLease] = []
        self._shield: Any = None  # a trio.CancelScope
        self._published: tuple[End, Token[End | None]] | None = None
        self.was_exceeded: bool = False

    def __enter__(self) -> Self:
        if self._published is not None:
            raise RuntimeError("a deadline block is entered once; make a new one for each block")
        from perdure.engine import timers

        if self._length is None:
            self._paused = _pause_all()
            self._shield = _shield_from(self._paused)
            self._published = publish(None)
        else:
            self._lease = timers.arm(self._length, shared=False)
            self._published = publish(clock.monotonic() + self._length, self._lease)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._published is None or self._published is _LEFT:
            return
        published, self._published = self._published, _LEFT
        last_failure = published[0].last_failure
        retract(published)
        if self._shield is not None:
            self._shield.__exit__(kind, error, trace)
        for paused in self._paused:
            paused.resume()
        lease, self._lease = self._lease, None
        try:
            ours = lease is not None and lease.settle(error)
            if ours or (lease is not None and _is_of_the_end(error, published[0])):
                self.was_exceeded = True
                raise _exceeded(self._length or 0.0) from (last_failure or error)
        finally:
            del error, last_failure

    def has_come(self) -> bool:
        """Whether the end has come and interrupts the block."""
        lease = self._lease
        scope = getattr(lease, "scope", None)
        return bool(getattr(lease, "fired", False) or (scope is not None and scope.cancel_called))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def deadline(seconds: float) -> Deadline:
    """Give everything in the block ``seconds``: ``with perdure.deadline(2): ...`` (also ``async with``).

    Async work is interrupted at the end, exactly, and ``DeadlineExceeded`` comes out, its cause the last
    failure of the guarded call that was cut. Sync work cannot be interrupted: guarded calls in the block begin
    no attempt and no wait past the end, and ``time_left()`` tells client libraries what is left. Ends nest:
    the nearest one holds. Tasks started in the block share its end until the block is left.

    Raises ConfigError unless seconds is a duration of 0 or more. One object serves one block, in one task or
    thread.
    """
    from perdure.durations import seconds as read

    return Deadline(read(seconds, field="seconds"))


def no_deadline() -> Deadline:
    """Lift all ends for the block: ``with perdure.no_deadline(): ...``, for clean-up that must be done.

    Ends around it, of this task, interrupt nothing meanwhile; one that passed interrupts when the block ends.
    The block is still cancelled when its task is (on trio not where an end had come before: there a cancellation
    goes on, and a shield keeps it out). One object serves one block, in one task or thread.
    """
    return Deadline(None)


def _shield_from(paused: list[Lease | TrioLease]) -> Any:
    """Trio goes on cancelling after an end has come: then the block needs a shield against that."""
    if not any(getattr(getattr(lease, "scope", None), "cancel_called", False) for lease in paused):
        return None
    import trio

    shield = trio.CancelScope(shield=True)
    shield.__enter__()
    return shield


def _pause_all() -> list[Lease | TrioLease]:
    """Keep the ends around from interrupting this task; those of other tasks are not touched."""
    from perdure.engine.waiting import current_task

    task, end = current_task(), ENDS.get()
    paused: list[Lease | TrioLease] = []
    while end is not None and end.at is not None:
        if end.open and end.lease is not None and end.lease.task is task:
            end.lease.pause()
            paused.append(end.lease)
        end = end.around
    return paused


def _is_of_the_end(error: BaseException | None, end: End) -> bool:
    """Whether a group holds nothing but what the end itself caused in the tasks of the block."""
    if error is None or end.at is None or clock.monotonic() < end.at:
        return False
    from perdure.errors import DeadlineExceeded
    from perdure.faults.chain import is_group, leaves

    return is_group(error) and all(isinstance(leaf, DeadlineExceeded) for leaf in leaves(error))


_LEFT: tuple[End, Token[End | None]] = (End(None, None), None)  # type: ignore[assignment] # stands for a block that was left


def _exceeded(length: float) -> BaseException:
    from perdure.durations import human
    from perdure.errors import DeadlineExceeded

    return DeadlineExceeded(f"the deadline of {human(length)} was exceeded")


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
