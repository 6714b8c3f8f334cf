"""What one would write by hand: the loops that every ratio refers to.

Five attempts on ``OSError``. The bare loop is the smallest thing that can be called a retry: it does not
wait. The others add what their names say, and nothing else: no hook, no log line, no deadline.
"""

import asyncio
import time
from functools import wraps
from random import random
from time import monotonic
from typing import Any

from benchmarks.targets import Function


def loop_sync(f: Function) -> Function:
    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                return f(*a, **k)
            except OSError:
                if i == 4:
                    raise
        return None

    return w


def loop_async(f: Function) -> Function:
    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                return await f(*a, **k)
            except OSError:
                if i == 4:
                    raise
        return None

    return w


def try_only_sync(f: Function) -> Function:
    """For information: the least that a wrapper with ``*args, **kwargs`` can do. It retries nothing."""

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        try:
            return f(*a, **k)
        except OSError:  # noqa: TRY203 - to have the handler is the point
            raise

    return w


def try_only_async(f: Function) -> Function:
    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        try:
            return await f(*a, **k)
        except OSError:  # noqa: TRY203 - to have the handler is the point
            raise

    return w


def loop_and_deadline_sync(f: Function) -> Function:
    """For information only: what the same deadline costs when written by hand. No ratio refers to it."""

    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        end = monotonic() + 30
        for i in range(5):
            try:
                return f(*a, **k)
            except OSError:
                if i == 4 or monotonic() >= end:
                    raise
        return None

    return w


def loop_and_deadline_async(f: Function) -> Function:
    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        end = monotonic() + 30
        for i in range(5):
            try:
                return await f(*a, **k)
            except OSError:
                if i == 4 or monotonic() >= end:
                    raise
        return None

    return w


def loop_and_sleep_sync(f: Function) -> Function:
    @wraps(f)
    def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                return f(*a, **k)
            except OSError:
                if i == 4:
                    raise
                time.sleep(min(5.0, 0.1 * 2**i) * random())
        return None

    return w


def loop_and_sleep_async(f: Function) -> Function:
    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                return await f(*a, **k)
            except OSError:
                if i == 4:
                    raise
                await asyncio.sleep(min(5.0, 0.1 * 2**i) * random())
        return None

    return w


def loop_and_constant_sleep_async(f: Function, delay: float) -> Function:
    """The loop with the same delay each time, for tasks that are to be caught waiting."""

    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                return await f(*a, **k)
            except OSError:
                if i == 4:
                    raise
                await asyncio.sleep(delay)
        return None

    return w


def loop_and_timeout_async(f: Function, seconds: float) -> Function:
    @wraps(f)
    async def w(*a: Any, **k: Any) -> Any:
        for i in range(5):
            try:
                async with asyncio.timeout(seconds):
                    return await f(*a, **k)
            except OSError:
                if i == 4:
                    raise
        return None

    return w


def only_timeout(f: Function, seconds: float) -> Function:
    """``asyncio.timeout`` round one call: lent to the libraries that have no attempt timeout."""

    async def w(*a: Any, **k: Any) -> Any:
        async with asyncio.timeout(seconds):
            return await f(*a, **k)

    return w
