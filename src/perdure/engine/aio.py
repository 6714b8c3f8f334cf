"""The async driver: the same as the sync one, with waits and attempts that can be interrupted."""

from __future__ import annotations

from perdure import bypass, clock
from perdure.colour import is_awaitable
from perdure.engine import ambient, frames, logs, responses, timers, waiting
from perdure.engine.run import Run
from perdure.errors import AttemptTimeout, DeadlineExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from perdure.engine.fused import Site


def general(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
    """A whole async call on the general path, to be awaited at once."""
    if site.policy.is_plain and not bypass.is_watched() and ambient.ENDS.get() is None:
        return _quickly(site, args, kwargs)
    run = Run(site.policy, site.fn, args, kwargs)
    run.begin()
    return drive(run)


async def _quickly(_site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the fused wrapper does, for a call that came here for the sake of an end which is not around it."""
    _start = None if _site.policy.deadline is None else clock.monotonic()
    try:
        return await _site.fn(*args, **kwargs)
    except Exception as error:
        run = Run(_site.policy, _site.fn, args, kwargs, _start, 1)
        if not run.failure(error):
            raise
    return await drive(run)


def timed_failure(
    site: Site,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    start: float,
    end: timers.AttemptEnd,
    error: BaseException,
) -> Run | None:
    """What a fused wrapper asks when a first attempt with a timeout raised: a run to resume, or None to raise."""
    run = Run(site.policy, site.fn, args, kwargs, start, 1)
    if not timers.close_attempt(end, error):
        return run if run.failure(error) else None
    cut = timed_out(site.limit)
    cut.__cause__ = error
    if not run.failure(cut):
        run.error = cut
    return run


async def resume(run: Run) -> Any:
    """Go on after a first attempt that failed, or end with what its timeout made of it."""
    if run.stop is not None:
        raise run.take_error()
    return await drive(run)


def adopt(run: Run, first: Awaitable[Any]) -> Awaitable[Any]:
    """Go on with a call whose function looked sync and returned an awaitable: await that as its attempt."""
    return drive(run, lambda: first)


async def drive(run: Run, first: Callable[[], Any] | None = None) -> Any:  # noqa: C901, PLR0912 - see in it
    """Make attempts until one gives the value, or the call ends with an error.

    ``first`` gives the awaitable of an attempt that was begun already.
    """
    fn, args, kwargs = run.fn, run.args, run.kwargs
    while True:
        if first is None:
            if type(run.error) in responses.HOLDERS:
                await responses.alet_go(run.error)
            if run.error is not None and run.waits is None:
                # Here and not in prepare(): a coroutine less for each task that waits.
                try:
                    await waiting.wait(run.delay or 0.0)
                except BaseException as error:
                    run.failure(error)
                    raise
            if run.guard is not None:
                await admit(run)
            refresh = _next(run)
            if run.stop is not None:
                raise run.take_error()
            if refresh is not None:
                first = _refreshed(run, refresh)
        try:
            if run.hedge is not None and first is None:
                value = await hedged(run)
            elif run.policy.is_plain and ambient.ENDS.get() is None:
                value = fn(*args, **kwargs) if first is None else first()
                if is_awaitable(value):
                    value = await value
            else:
                value = await within_limit(run, first)
        except BaseException as error:
            first = None
            if not run.failure(error):
                raise
        else:
            first = None
            if run.success(value):
                return value
            if run.stop is not None:
                raise run.take_error()


async def prepare(run: Run) -> None:
    """What comes before an attempt of a generator or block: the wait, the count, the refresh of what is stale."""
    if run.error is not None and run.waits is None:
        try:
            await waiting.wait(run.delay or 0.0)
        except BaseException as error:
            run.failure(error)
            raise
    if run.guard is not None:
        await admit(run)
    refresh = _next(run)
    if run.stop is not None:
        raise run.take_error()
    if refresh is not None:
        await _refresh(refresh)


async def admit(run: Run) -> None:
    """Wait until the dependency admits the next attempt; where it refuses a retry, ``stop`` is set."""
    pauses = None
    try:
        pauses = run.admit()
        if pauses is None:
            return
        for pause in pauses:
            if run.waits is not None and not pause.is_woken:
                run.waits.append(pause.duration)
            else:
                await pause.wait_async()
    except BaseException as error:
        if pauses is not None:
            pauses.close()
        if not isinstance(error, Exception):
            run.failure(error)
        raise


def hedged(run: Run) -> Awaitable[Any]:
    """An attempt with copies of it."""
    from perdure.engine import ahedging

    return ahedging.attempt(run)  # type: ignore[arg-type] # a run with a hedge is a GuardedRun


def _next(run: Run) -> Callable[[], object] | None:
    if run.stop is not None:
        return None
    if run.error is not None and run.waits is not None:
        run.waits.append(run.delay or 0.0)
    return run.next_attempt()


def _refreshed(run: Run, refresh: Callable[[], object]) -> Callable[[], Any]:
    """An attempt that begins with the refresh, so that what bounds and cancels the attempt holds for it too."""

    async def attempt() -> Any:
        await _refresh(refresh)
        value = run.fn(*run.args, **run.kwargs)
        return await value if is_awaitable(value) else value

    return attempt


async def within_limit(run: Run, begin: Callable[[], Any] | None = None) -> Any:
    """One attempt, interrupted at its attempt timeout or at an end that another task opened.

    An end that this very task opened interrupts by itself. ``begin`` starts the attempt (default: the call).
    """
    limit, end = ambient.bound(run.attempt_timeout())
    inner = ambient.quieten(run) if run.policy.nested == "outer" else None
    try:
        value = begin() if begin is not None else run.fn(*run.args, **run.kwargs)
        if not is_awaitable(value):
            return value
        return await (value if limit is None else _timed(value, limit, run, end))
    finally:
        if inner is not None:
            ambient.loosen(inner)


async def _timed(awaitable: Awaitable[Any], limit: float, run: Run, end: ambient.End | None) -> Any:
    """Await within ``limit`` seconds, published as an end for what runs inside; ``end``: the caller's, not ours."""
    lease = timers.arm(limit, shared=end is None and run.policy.shrink == 1.0)
    now, own = clock.monotonic(), run.attempt_timeout()
    published = ambient.publish(now + limit, lease)
    if end is not None:
        ambient.borrow(published[0], end, None if own is None else now + own, lease)
    error: BaseException | None = None
    try:
        return await awaitable
    except BaseException as caught:
        error = caught
        raise
    finally:
        ambient.retract(published)
        try:
            if lease is not None and lease.settle(error):
                if end is None:
                    raise timed_out(limit) from error
                if published[0].lender is None and own is not None:
                    raise timed_out(own) from error
                raise caller_is_done() from (end.last_failure or error)
        finally:
            error = None


def timed_out(limit: float) -> AttemptTimeout:
    """The error for an attempt that its timeout interrupted."""
    from perdure.durations import human

    return AttemptTimeout(f"the attempt took longer than {human(limit)}", timeout=limit)


def caller_is_done() -> DeadlineExceeded:
    """The error for an attempt that the end of its caller's time interrupted."""
    return DeadlineExceeded("the caller's deadline was exceeded")


async def _refresh(refresh: Callable[[], object]) -> None:
    """Refresh what was stale; where that fails, the attempt that follows will say so."""
    try:
        waits = refresh()
        if is_awaitable(waits):
            await waits  # type: ignore[misc] # is_awaitable said so
    except Exception as error:  # noqa: BLE001 - a hook never changes the outcome
        logs.complain(refresh, "refresh=", error)


frames.drives(drive)
frames.drives(_quickly)
frames.drives(resume)
