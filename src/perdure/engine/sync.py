"""The sync driver: call, wait, call again, as ``Run`` decides."""

from __future__ import annotations

from perdure import bypass, clock
from perdure.colour import is_awaitable
from perdure.engine import ambient, frames, logs
from perdure.engine.fused import look
from perdure.engine.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.fused import Site
    from perdure.engine.queueing import Pause


_PLAIN = frozenset({type(None), bool, int, float, str, bytes, list, dict, tuple, set})


def first_failure(
    site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], start: float | None, error: Exception
) -> Run | None:
    """What a fused wrapper asks when its first attempt raised: a run to resume, or None to raise."""
    run = Run(site.policy, site.fn, args, kwargs, start, 1)
    return run if run.failure(error) else None


def general(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A whole sync call on the general path."""
    if site.policy.is_plain and not bypass.is_watched() and ambient.ENDS.get() is None:
        return _quickly(site, args, kwargs)
    run = Run(site.policy, site.fn, args, kwargs)
    run.begin()
    return drive(run)


def _quickly(_site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the fused wrapper does, for a call that came here for the sake of an end which is not around it."""
    _start = None if _site.policy.deadline is None else clock.monotonic()
    try:
        value = _site.fn(*args, **kwargs)
    except Exception as error:
        run = first_failure(_site, args, kwargs, _start, error)
        if run is None:
            raise
    else:
        if type(value) in _PLAIN or not is_awaitable(value):
            return value
        return look(_site, args, kwargs, _start, value)
    return drive(run)


def drive(run: Run) -> Any:  # noqa: C901, PLR0912 - flat: it runs at every failure
    """Make attempts until one gives the value, or the call ends with an error.

    A function that turns out to return an awaitable moves to the async driver, which awaits it in the loop.
    """
    fn, args, kwargs = run.fn, run.args, run.kwargs
    while True:
        if run.error is not None:
            _wait(run)
        if run.guard is not None:
            admit(run)
        refresh = run.next_attempt() if run.stop is None else None
        if run.stop is not None:
            raise run.take_error()
        try:
            if refresh is not None:
                _refresh(refresh)
            if run.hedge is not None:
                value = hedged(run)
            else:
                value = fn(*args, **kwargs) if run.policy.is_plain else special(run, fn, *args, **kwargs)
        except BaseException as error:
            if not run.failure(error):
                raise
        else:
            if type(value) not in _PLAIN and is_awaitable(value):
                from perdure.engine.aio import adopt

                return adopt(run, value)
            if run.success(value):
                return value
            if run.stop is not None:
                raise run.take_error()


def prepare(run: Run) -> None:
    """What comes before an attempt of a generator or block: the wait, the count, the refresh of what is stale."""
    if run.error is not None:
        _wait(run)
    if run.guard is not None:
        admit(run)
    refresh = run.next_attempt() if run.stop is None else None
    if run.stop is not None:
        raise run.take_error()
    if refresh is not None:
        _refresh(refresh)


def admit(run: Run) -> None:
    """Wait until the dependency admits the next attempt; where it refuses a retry, ``stop`` is set."""
    pauses = None
    try:
        pauses = run.admit()
        for pause in pauses or ():
            _pause(run, pause)
    except BaseException as error:
        if pauses is not None:
            pauses.close()
        if not isinstance(error, Exception):
            run.failure(error)
        raise


def _pause(run: Run, pause: Pause) -> None:
    if run.waits is not None and not pause.is_woken:
        run.waits.append(pause.duration)
    else:
        pause.wait()


def hedged(run: Run) -> Any:
    """An attempt with copies of it."""
    from perdure.engine import hedging

    return hedging.attempt(run)  # type: ignore[arg-type] # a run with a hedge is a GuardedRun


def _wait(run: Run) -> None:
    delay = run.delay or 0.0
    if run.waits is not None:
        run.waits.append(delay)
    elif delay > 0:
        try:
            clock.sleep(delay)
        except BaseException as error:
            run.failure(error)
            raise


def special(run: Run, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """One attempt under what a plain policy has not.

    An attempt timeout is published as an end: nothing interrupts a plain function, but it can see what is
    left. With ``nested="outer"`` the guarded calls inside make single attempts.
    """
    length = run.attempt_timeout()
    published = None if length is None else ambient.publish(clock.monotonic() + length)
    inner = ambient.quieten(run) if run.policy.nested == "outer" else None
    try:
        return call(*args, **kwargs)
    finally:
        if published is not None:
            ambient.retract(published)
        if inner is not None:
            ambient.loosen(inner)


def _refresh(refresh: Callable[[], object]) -> None:
    """Refresh what was stale; where that fails, the attempt that follows will say so."""
    try:
        waits = refresh()
    except Exception as error:  # noqa: BLE001 - a hook never changes the outcome
        logs.complain(refresh, "refresh=", error)
        return
    if is_awaitable(waits):
        close = getattr(waits, "close", None)
        if close is not None:
            close()
        trouble = TypeError("it returned an awaitable to a sync call; give it a plain function")
        logs.complain(refresh, "refresh=", trouble)


frames.drives(drive)
frames.drives(_quickly)
