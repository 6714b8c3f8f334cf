"""A breaker as one would write it by hand, alone and inside a retry loop: what rows 8 and 9 refer to.

It opens at five failures in a row. The loops make five attempts with the breaker around each and back off
between them; served to several threads correctly, that takes a lock on entry and on exit.
"""

import asyncio
import time
from functools import wraps
from random import random
from threading import Lock
from time import monotonic
from typing import Any

from benchmarks.targets import Function

FAILURES = 5


class Open(Exception):
    """The hand-written breaker refuses a call."""


class State:
    """All that the hand-written breaker knows."""

    __slots__ = ("failures", "open", "until")

    def __init__(self) -> None:
        self.open = False
        self.failures = 0
        self.until = 0.0

    def failed(self, cooldown: float) -> None:
        """Count a failure; the success path and the test before a call stand in the wrappers themselves."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.open, self.until = True, monotonic() + cooldown


def breaker_sync(f: Function, cooldown: float, b: State | None = None) -> Function:
    b = b or State()

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        if b.open and monotonic() < b.until:
            raise Open
        try:
            r = f(*a, **k)
        except OSError:
            b.failed(cooldown)
            raise
        b.failures = 0
        b.open = False
        return r

    return w


def breaker_async(f: Function, cooldown: float, b: State | None = None) -> Function:
    b = b or State()

    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        if b.open and monotonic() < b.until:
            raise Open
        try:
            r = await f(*a, **k)
        except OSError:
            b.failed(cooldown)
            raise
        b.failures = 0
        b.open = False
        return r

    return w


def retry_and_breaker_locked(f: Function, cooldown: float) -> Function:
    b, lock = State(), Lock()

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            with lock:
                if b.open and monotonic() < b.until:
                    raise Open
            try:
                r = f(*a, **k)
            except OSError:
                with lock:
                    b.failed(cooldown)
                if i == 4:
                    raise
                time.sleep(min(5.0, 0.1 * 2**i) * random())
            else:
                with lock:
                    b.failures = 0
                    b.open = False
                return r
        return None

    return w


def retry_and_breaker_unlocked(f: Function, cooldown: float) -> Function:
    b = State()

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            if b.open and monotonic() < b.until:
                raise Open
            try:
                r = f(*a, **k)
            except OSError:
                b.failed(cooldown)
                if i == 4:
                    raise
                time.sleep(min(5.0, 0.1 * 2**i) * random())
            else:
                b.failures = 0
                b.open = False
                return r
        return None

    return w


def retry_breaker_and_limit_locked(f: Function, cooldown: float, rate: float) -> Function:
    """For information: the locked loop with a rate limit of evenly spaced calls under the same lock."""
    b, lock = State(), Lock()
    step, burst, due = 1 / rate, 1.0, 0.0

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        nonlocal due
        for i in range(5):
            with lock:
                now = monotonic()
                if b.open and now < b.until:
                    raise Open
                if due - now > burst:
                    raise Open
                due = max(due, now) + step
            try:
                r = f(*a, **k)
            except OSError:
                with lock:
                    b.failed(cooldown)
                if i == 4:
                    raise
                time.sleep(min(5.0, 0.1 * 2**i) * random())
            else:
                with lock:
                    b.failures = 0
                    b.open = False
                return r
        return None

    return w


def retry_and_breaker_async(f: Function, cooldown: float) -> Function:
    b = State()

    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            if b.open and monotonic() < b.until:
                raise Open
            try:
                r = await f(*a, **k)
            except OSError:
                b.failed(cooldown)
                if i == 4:
                    raise
                await asyncio.sleep(min(5.0, 0.1 * 2**i) * random())
            else:
                b.failures = 0
                b.open = False
                return r
        return None

    return w


def retry_breaker_and_timeout_async(f: Function, cooldown: float, seconds: float) -> Function:
    b = State()

    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            if b.open and monotonic() < b.until:
                raise Open
            try:
                async with asyncio.timeout(seconds):
                    r = await f(*a, **k)
            except OSError:  # a TimeoutError is one
                b.failed(cooldown)
                if i == 4:
                    raise
                await asyncio.sleep(min(5.0, 0.1 * 2**i) * random())
            else:
                b.failures = 0
                b.open = False
                return r
        return None

    return w
