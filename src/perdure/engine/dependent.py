"""Whole calls to a dependency: the end and the fallback around the attempts, sync and async.

``general`` and ``ageneral`` make a call from its start; ``failed`` and ``resume`` take over from a fused wrapper
whose first attempt raised.
"""

from __future__ import annotations

from perdure import bypass, clock
from perdure.colour import is_awaitable
from perdure.core.decide import Stop
from perdure.engine import aio, ambient, ending, fallbacks, frames, sync, timers
from perdure.engine.deadlines import Deadline
from perdure.engine.guarded import GuardedRun
from perdure.errors import DeadlineExceeded
from perdure.faults import Fault, FaultKind
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any

    from perdure.core.lease import Lease
    from perdure.engine.fused import Site
    from perdure.engine.timers import AttemptEnd


def general(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A whole sync call on the general path."""
    if site.is_quick and not bypass.is_watched() and ambient.ENDS.get() is None:
        lease, start = site.state.fast, clock.monotonic()
        if lease is not None and start < site.state.due and site.state.fly():
            return _quickly(site, args, kwargs, start, lease)
    return call(GuardedRun(site.guard, site.fn, args, kwargs, state=site.state))


def ageneral(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
    """A whole async call on the general path."""
    if site.is_quick and not bypass.is_watched() and ambient.ENDS.get() is None:
        lease, start = site.state.fast, clock.monotonic()
        if lease is not None and start < site.state.due and site.state.fly():
            return _aquickly(site, args, kwargs, start, lease)
    return acall(GuardedRun(site.guard, site.fn, args, kwargs, state=site.state))


def _quickly(_site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], _start: float, lease: Lease) -> Any:
    """What the fused wrapper does, for a call that came here for the sake of an end which is not around it."""
    try:
        value = _site.fn(*args, **kwargs)
    except BaseException as error:
        _site.state.flight.pop()
        run = failed(_site, args, kwargs, _start, lease, error)
        if run is None:
            raise
    else:
        if is_awaitable(value):
            run = _taken_over(_site, args, kwargs, _start, lease)
            return _afinish(run, aio.adopt(run, value))
        _site.state.flight.pop()
        lease.ok += 1
        return value
    return resume(run)


async def _aquickly(
    _site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], _start: float, lease: Lease
) -> Any:
    """The same for an async function."""
    try:
        value = await _site.fn(*args, **kwargs)
    except BaseException as error:
        _site.state.flight.pop()
        run = failed(_site, args, kwargs, _start, lease, error)
        if run is None:
            raise
    else:
        _site.state.flight.pop()
        lease.ok += 1
        return value
    return await aresume(run)


def failed(
    site: Site,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    start: float | None,
    lease: Lease,
    error: BaseException,
    end: AttemptEnd | ambient.CallEnd | None = None,
) -> GuardedRun | None:
    """What a fused wrapper asks when its first attempt raised: a run to resume, or None to raise.

    ``end``: what bounded the attempt, and may be why it raised. The wrapper took the attempt out of ``flight``.
    """
    run = _taken_over(site, args, kwargs, start, lease)
    run.state.flight.append(None)
    cut: BaseException | None = None
    if isinstance(end, ambient.CallEnd):
        _is_over(run, end)
    elif end is not None and timers.close_attempt(end, error):
        cut = aio.timed_out(site.limit)
        cut.__cause__ = error
        error = cut
    if run.failure(error):
        return run
    if cut is None and (run.fallback is None or not isinstance(error, Exception)):
        _close_end(run)
        return None
    run.error = error  # type: ignore[assignment] # an Exception in both cases
    return run


def _is_over(run: GuardedRun, end: ambient.CallEnd) -> None:
    """The first attempt of a sync call is over: its end becomes that of the call, or is closed."""
    if run.total is None or run.start is None:
        close_total(end)
    else:
        end.at = run.start + run.total
        run.end = end


def adopt(
    site: Site,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    start: float | None,
    lease: Lease,
    value: Awaitable[Any],
) -> Awaitable[Any]:
    """Go on with a call whose function looked sync and returned an awaitable."""
    run = _taken_over(site, args, kwargs, start, lease)
    return _afinish(run, aio.adopt(run, value))


def _taken_over(
    site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], start: float | None, lease: Lease
) -> GuardedRun:
    return GuardedRun(site.guard, site.fn, args, kwargs, start, 1, site.state, lease)


def call(run: GuardedRun) -> Any:
    """Make a call from its start."""
    try:
        run.begin()
        total = run.total
        value = sync.drive(run) if total is None else _within_total(run, total)
    except Exception as error:
        if run.fallback is None:
            raise
        return fallbacks.instead(run, error)
    if run.fallback is not None or run.total is not None:
        if is_awaitable(value):  # a function that looked sync
            return _afinish(run, value)
        fallbacks.remember(run, value)
    return value


def resume(run: GuardedRun) -> Any:
    """Go on after a first attempt that failed."""
    if run.fallback is None and run.end is None:
        return sync.drive(run)
    try:
        if run.stop is not None:
            raise run.take_error()  # noqa: TRY301 - as the driver would
        return sync.drive(run)
    except Exception as error:
        if run.fallback is None:
            raise
        _close_end(run)
        return fallbacks.instead(run, error)
    finally:
        _close_end(run)


def _close_end(run: GuardedRun) -> None:
    end, run.end = run.end, None
    if end is not None:
        close_total(end)


def close_total(end: ambient.CallEnd) -> None:
    """What was bounded is over, whose end a fused wrapper had published."""
    ambient.ENDS.reset(end.token)  # type: ignore[arg-type] # set when it was opened
    end.token = end.last_failure = None
    bypass.OPEN_ENDS.pop()


async def acall(run: GuardedRun) -> Any:
    """Make an async call from its start."""
    try:
        run.begin()
        total = run.total
        value = await (aio.drive(run) if total is None else _awithin_total(run, total))
    except Exception as error:
        if run.fallback is None:
            raise
        return await fallbacks.ainstead(run, error)
    fallbacks.remember(run, value)
    return value


async def aresume(run: GuardedRun) -> Any:
    """Go on after a first attempt that failed."""
    try:
        if run.stop is not None:
            raise run.take_error()  # noqa: TRY301 - as the driver would
        return await aio.drive(run)
    except Exception as error:
        if run.fallback is None:
            raise
        return await fallbacks.ainstead(run, error)


async def _afinish(run: GuardedRun, value: Awaitable[Any]) -> Any:
    try:
        total = run.total
        left = None if total is None else max(0.0, total - (clock.monotonic() - run.since()))
        got = await (value if left is None else _ainside(run, value, left))
    except Exception as error:
        if run.fallback is None:
            raise
        return await fallbacks.ainstead(run, error)
    fallbacks.remember(run, got)
    return got


def _within_total(run: GuardedRun, total: float) -> Any:
    """Attempts under the end of the call, which sync code only sees."""
    with Deadline(total):
        return sync.drive(run)


def _awithin_total(run: GuardedRun, total: float) -> Awaitable[Any]:
    """Attempts under the end of the call, which interrupts them."""
    return _ainside(run, aio.drive(run), total)


async def _ainside(run: GuardedRun, attempts: Awaitable[Any], left: float) -> Any:
    run.block = block = Deadline(left)
    try:
        with block:
            return await attempts
    except DeadlineExceeded as error:
        if block.was_exceeded:
            stop = Stop(StopReason.DEADLINE)
            ending.give_up(run, error, _TOTAL, stop, clock.monotonic(), waited=run.is_waiting)
        raise
    finally:
        run.block = None


_TOTAL = Fault(FaultKind.NEUTRAL, None, "the end of the whole call came")


for _driver in (call, acall, resume, aresume, _quickly, _aquickly):
    frames.drives(_driver)
