"""Everything that is compared, as one table: ``CONTENDERS``.

A ``Plan`` says what is wanted; a contender's ``build`` turns it into a decorator, or raises ``NotOffered``
with the reason. Wanted of all: five attempts on ``OSError``, the original exception at the end, and where
the row waits, exponential backoff from 0.1 s by a factor of 2 up to 5 s with full jitter. Where an API
cannot say one of these the contender's ``note`` tells what it does instead. All hooks and loggers stay as
the library ships them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Literal

from benchmarks import baselines
from benchmarks.targets import Function

Decorator = Callable[[Function], Function]

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a contender is asked to be. Seconds; ``None`` means without."""

    colour: Literal["sync", "async"]
    deadline: float | None = None
    attempt_timeout: float | None = None
    wait: Literal["exponential", "hour"] = "exponential"

    @property
    def constant_delay(self) -> float | None:
        """The fixed delay of a plan that does not back off exponentially."""
        return HOUR if self.wait == "hour" else None


class NotOffered(Exception):
    """The library has no such feature; the message says which."""


def bare(plan: Plan) -> Decorator:
    return lambda f: f


def try_only(plan: Plan) -> Decorator:
    return baselines.try_only_sync if plan.colour == "sync" else baselines.try_only_async


def hand_loop(plan: Plan) -> Decorator:
    return baselines.loop_sync if plan.colour == "sync" else baselines.loop_async


def hand_loop_and_deadline(plan: Plan) -> Decorator:
    if plan.deadline is None:
        raise NotOffered("the row has no deadline")
    return baselines.loop_and_deadline_sync if plan.colour == "sync" else baselines.loop_and_deadline_async


def hand_and_sleep(plan: Plan) -> Decorator:
    delay = plan.constant_delay
    if delay is not None:
        return lambda f: baselines.loop_and_constant_sleep_async(f, delay)
    return baselines.loop_and_sleep_sync if plan.colour == "sync" else baselines.loop_and_sleep_async


def hand_and_timeout(plan: Plan) -> Decorator:
    seconds = _timeout_of(plan)
    return lambda f: baselines.loop_and_timeout_async(f, seconds)


def perdure(plan: Plan) -> Decorator:
    import perdure as library

    options: dict[str, Any] = {"on": OSError, "attempts": 5}
    if plan.deadline is None:
        options["deadline"] = None  # otherwise the default, 30 s
    if plan.attempt_timeout is not None:
        options["attempt_timeout"] = plan.attempt_timeout
    if plan.constant_delay is None:
        options["backoff"] = library.Exponential(base=0.1, factor=2, cap=5, jitter="full")
    else:
        options["backoff"] = library.Constant(plan.constant_delay)
    return library.retry(**options)


def tenacity(plan: Plan) -> Decorator:
    import tenacity as library

    stop: Any = library.stop_after_attempt(5)
    if plan.deadline is not None:
        stop = stop | library.stop_after_delay(plan.deadline)
    wait: Any = library.wait_random_exponential(multiplier=0.1, max=5)
    if plan.constant_delay is not None:
        wait = library.wait_fixed(plan.constant_delay)
    retry: Any = library.retry(
        retry=library.retry_if_exception_type(OSError), stop=stop, wait=wait, reraise=True
    )
    return _timed_by_asyncio(retry, plan)


def stamina(plan: Plan) -> Decorator:
    import stamina as library

    delays: dict[str, float] = {
        "wait_initial": 0.1,
        "wait_max": 5.0,
        "wait_jitter": 1.0,
        "wait_exp_base": 2.0,
    }
    if plan.constant_delay is not None:
        delays = {"wait_initial": plan.constant_delay, "wait_max": plan.constant_delay, "wait_jitter": 0.0}
    retry: Any = library.retry(on=OSError, attempts=5, timeout=plan.deadline, **delays)
    return _timed_by_asyncio(retry, plan)


def backoff(plan: Plan) -> Decorator:
    import backoff as library

    options: dict[str, Any] = {"max_tries": 5, "max_time": plan.deadline}
    if plan.constant_delay is None:
        retry = library.on_exception(
            library.expo, OSError, base=2, factor=0.1, max_value=5, jitter=library.full_jitter, **options
        )
    else:
        retry = library.on_exception(
            library.constant, OSError, interval=plan.constant_delay, jitter=None, **options
        )
    return _timed_by_asyncio(retry, plan)


def opnieuw(plan: Plan) -> Decorator:
    import opnieuw as library

    if plan.constant_delay is not None:
        raise NotOffered("delays follow from the window; they cannot be fixed")
    retry: Any = library.retry(
        retry_on_exceptions=OSError, max_calls_total=5, retry_window_after_first_call_in_seconds=30
    )
    return _timed_by_asyncio(retry, plan)


def dogged(plan: Plan) -> Decorator:
    import dogged as library

    if plan.colour == "async":
        raise NotOffered("sync only")
    if plan.deadline is not None:
        raise NotOffered("no deadline")
    return library.retry(times=5, exceptions=OSError, delay=0.1, backoff=2.0, max_delay=5.0)


def reattempt(plan: Plan) -> Decorator:
    from reattempt import reattempt as retry

    if plan.deadline is not None:
        raise NotOffered("no deadline")
    delay = plan.constant_delay
    shortest, longest = (0.1, 5.0) if delay is None else (delay, delay)
    decorate: Any = retry(max_retries=5, min_time=shortest, max_time=longest)
    return _timed_by_asyncio(decorate, plan)


def pyresilience(plan: Plan) -> Decorator:
    import pyresilience as library

    if plan.deadline is not None:
        raise NotOffered("no deadline that only stops retrying (its total timeout cuts the call)")
    delay = plan.constant_delay
    first = 0.1 if delay is None else delay
    retry = library.RetryConfig(
        max_attempts=5,
        retry_on=(OSError,),
        delay=first,
        backoff_factor=2.0 if delay is None else 1.0,
        max_delay=5.0 if delay is None else delay,
        jitter=delay is None,
    )
    if plan.attempt_timeout is None:
        return library.resilient(retry=retry)
    return library.resilient(
        retry=retry, timeout=library.TimeoutConfig(seconds=plan.attempt_timeout, per_attempt=True)
    )


def hyx(plan: Plan) -> Decorator:
    from hyx.retry import retry
    from hyx.retry.backoffs import const, expo
    from hyx.retry.jitters import full
    from hyx.timeout import timeout

    if plan.colour == "sync":
        raise NotOffered("async only")
    if plan.deadline is not None:
        raise NotOffered("no deadline")
    delays: Any = expo(min_delay_secs=0.1, base=2, max_delay_secs=5, jitter=full)
    if plan.constant_delay is not None:
        delays = const(plan.constant_delay)
    on: Any = OSError
    if plan.attempt_timeout is None:
        return retry(on=on, attempts=4, backoff=delays)
    from hyx.timeout.exceptions import MaxDurationExceeded

    seconds = plan.attempt_timeout
    decorate = retry(on=(OSError, MaxDurationExceeded), attempts=4, backoff=delays)
    return lambda f: decorate(timeout(seconds)(f))


def _timeout_of(plan: Plan) -> float:
    if plan.attempt_timeout is None:
        raise NotOffered("the row has no attempt timeout")
    return plan.attempt_timeout


def _timed_by_asyncio(retry: Decorator, plan: Plan) -> Decorator:
    seconds = plan.attempt_timeout
    if seconds is None:
        return retry
    return lambda f: retry(baselines.only_timeout(f, seconds))


_OUTER = "attempt timeout: asyncio.timeout inside the retried function, as it has none"


@dataclass(frozen=True, slots=True)
class Contender:
    """One thing to be measured. ``distribution`` names its package, or several; code written here has none."""

    name: str
    build: Callable[[Any], Decorator]
    distribution: str | None = None
    note: str = ""


def version_of(distribution: str) -> str | None:
    """The installed version; ``None`` when there is none to tell."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "from its source tree" if find_spec(distribution) else None


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("bare", bare, note="the function itself"),
        Contender(
            "try only", try_only, note="one try with *args, **kwargs: no retry, no loop; for information"
        ),
        Contender("hand loop", hand_loop, note="no wait, no jitter, no deadline"),
        Contender(
            "hand loop + deadline", hand_loop_and_deadline, note="for information; no ratio refers to it"
        ),
        Contender("hand + sleep", hand_and_sleep, note="full jitter, no deadline"),
        Contender("hand + asyncio.timeout", hand_and_timeout, note="does not wait between attempts"),
        Contender("perdure", perdure, "perdure"),
        Contender("tenacity", tenacity, "tenacity", _OUTER),
        Contender(
            "stamina", stamina, "stamina", f"jitter is added (0 to 1 s); logs WARNING per retry; {_OUTER}"
        ),
        Contender("backoff", backoff, "backoff", _OUTER),
        Contender(
            "opnieuw", opnieuw, "opnieuw", f"always has a window, here 30 s, also in rows without; {_OUTER}"
        ),
        Contender("dogged", dogged, "dogged", "no jitter, no deadline, sync only"),
        Contender(
            "reattempt",
            reattempt,
            "reattempt",
            f"retries every Exception; no deadline; logs ERROR with traceback per failure; {_OUTER}",
        ),
        Contender("pyresilience", pyresilience, "pyresilience", "never waits under a tenth of the delay"),
        Contender(
            "hyx",
            hyx,
            "hyx",
            "attempts=4, since it makes one call more; ends in its own exception; async only",
        ),
    )
}

PEERS = ("tenacity", "stamina", "backoff", "opnieuw", "dogged", "reattempt", "pyresilience", "hyx")
