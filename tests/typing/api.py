"""What type checkers see: guarding changes no type. Read by mypy and pyright in strict mode, run by nobody."""

from __future__ import annotations

import functools
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from typing import Any, Self, assert_type

import perdure
from perdure import Attempt, AttemptRecord, Event, Explanation, Fault, FaultKind, Outcome, Retry, Safety

policy = Retry(on=(OSError, FaultKind.TRANSIENT), attempts=5)


# Functions: `@retry`, `@retry(...)`, `@policy`.


@perdure.retry
def plain(url: str, *, timeout: float = 1.0) -> bytes:
    return f"{url} {timeout}".encode()


@perdure.retry(on=OSError, attempts=5, backoff=perdure.Exponential(base=0.2, cap=5), deadline=None)
def with_options(count: int) -> list[int]:
    return [count]


@policy
def with_policy(*names: str, **options: int) -> dict[str, int]:
    return options | dict.fromkeys(names, 0)


assert_type(plain("/", timeout=2), bytes)
assert_type(with_options(1), list[int])
assert_type(with_policy("a", b=1), dict[str, int])
plain(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
plain("/", timeouts=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
with_options()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

guarded: Callable[[int], list[int]] = policy(with_options)
assert_type(policy(len)([1]), int)


# Coroutine functions, generators, async generators.


@perdure.retry
async def later(url: str) -> bytes:
    return url.encode()


@policy
def items(count: int) -> Iterator[int]:
    yield from range(count)


@policy
def generator(count: int) -> Generator[int, str, bool]:
    sent = yield count
    return bool(sent)


@perdure.retry(attempts=2)
async def stream(count: int) -> AsyncIterator[int]:
    yield count


@policy
async def async_generator(count: int) -> AsyncGenerator[int, str]:
    sent = yield count
    assert_type(sent, str)


async def use_async() -> None:
    coroutine: Coroutine[Any, Any, bytes] = later("/")
    assert_type(await coroutine, bytes)
    assert_type(await later("/"), bytes)
    assert_type(items(3), Iterator[int])
    assert_type(generator(3), Generator[int, str, bool])
    assert_type(stream(3), AsyncIterator[int])
    assert_type(async_generator(3), AsyncGenerator[int, str])
    async for number in stream(3):
        assert_type(number, int)


# Methods of every kind, decorators in both orders.


class Client:
    """Something with guarded members."""

    @perdure.retry
    def get(self, url: str) -> bytes:
        return url.encode()

    @policy
    async def fetch(self, url: str) -> bytes:
        return url.encode()

    @perdure.retry(attempts=3)
    def pages(self, url: str) -> Iterator[bytes]:
        yield url.encode()

    @classmethod
    @policy
    def of(cls, url: str) -> Client:
        return cls()

    @policy
    @classmethod
    def above(cls, url: str) -> Client:
        return cls()

    @staticmethod
    @perdure.retry
    def parse(body: bytes) -> str:
        return body.decode()

    @perdure.retry
    @staticmethod
    def above_static(body: bytes) -> str:
        return body.decode()

    @classmethod
    @policy
    async def connect(cls, url: str) -> Client:
        return cls()

    @property
    @policy
    def size(self) -> int:
        return 1

    @size.setter
    @policy
    def size(self, value: int) -> None: ...

    @policy
    def __call__(self, url: str) -> bytes:
        return url.encode()

    @policy
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exit_: object) -> None: ...


client = Client()
assert_type(client.get("/"), bytes)
assert_type(Client.get(client, "/"), bytes)
assert_type(client.pages("/"), Iterator[bytes])
assert_type(Client.of("/"), Client)
assert_type(client.of("/"), Client)
assert_type(Client.above("/"), Client)
assert_type(client.above("/"), Client)
assert_type(Client.parse(b""), str)
assert_type(client.parse(b""), str)
assert_type(Client.above_static(b""), str)
assert_type(client.above_static(b""), str)
assert_type(client.size, int)
assert_type(client("/"), bytes)
client.size = 2
client.get()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
client.size = "2"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]


async def use_methods() -> None:
    assert_type(await client.fetch("/"), bytes)
    assert_type(await Client.connect("/"), Client)
    async with client as entered:
        assert_type(entered, Client)


# Partials and callable objects keep their type.


class Callable_:  # noqa: N801 - Callable is taken
    """An object that is called."""

    name = "callable"

    def __call__(self, count: int) -> str:
        return self.name * count


assert_type(policy(functools.partial(plain, timeout=2.0)), "functools.partial[bytes]")
assert_type(policy(functools.partial(plain, timeout=2.0))("/"), bytes)
assert_type(policy(Callable_()), Callable_)
assert_type(policy(Callable_())(2), str)
assert_type(policy(client.get)("/"), bytes)
assert_type(policy(lambda: str(1))(), str)
assert_type(policy(Client)(), Client)


# call and outcome serve both colours.


def divide(left: float, right: float = 2.0) -> float:
    return left / right


async def divide_later(left: float, right: float = 2.0) -> float:
    return left / right


assert_type(policy.call(divide, 1.0), float)
assert_type(policy.call(divide, 1.0, right=3.0), float)
assert_type(policy.call(client.get, "/"), bytes)
assert_type(policy.call(Callable_(), 2), str)
assert_type(policy.outcome(divide, 1.0), Outcome[float])
assert_type(policy.outcome(divide, 1.0, right=3.0).unwrap(), float)
assert_type(policy.outcome(client.get, "/").value, bytes | None)
policy.call(divide)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
policy.call(divide, "1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def use_outcome() -> None:
    coroutine: Coroutine[Any, Any, float] = policy.call(divide_later, 1.0)
    assert_type(await coroutine, float)
    assert_type(await policy.call(divide_later, 1.0, right=3.0), float)
    assert_type(policy.outcome(divide_later, 1.0), Awaitable[Outcome[float]])
    assert_type(await policy.outcome(divide_later, 1.0), Outcome[float])
    assert_type((await policy.outcome(client.fetch, "/")).unwrap(), bytes)


# Blocks.


def use_blocks() -> int:
    for attempt in policy:
        with attempt:
            assert_type(attempt, Attempt)
            assert_type(attempt.number, int)
            assert_type(attempt.timeout, float | None)
            assert_type(attempt.time_left, float | None)
            assert_type(attempt.result(divide(1.0)), float)
            return attempt.result(1)
    return 0


async def use_async_blocks() -> float:
    async for attempt in policy:
        with attempt:
            return attempt.result(await divide_later(1.0))
    async for attempt in policy:
        async with attempt as entered:
            assert_type(entered, Attempt)
    return 0.0


# Values.

outcome: Outcome[float] = policy.outcome(divide, 1.0)
wider: Outcome[float | None] = outcome  # what it holds can only be read
assert_type(outcome.unwrap(), float)
assert_type(outcome.error, Exception | None)
assert_type(outcome.records, tuple[AttemptRecord, ...])
assert_type(perdure.attempts_of(OSError()), tuple[AttemptRecord, ...])
assert_type(policy.delays(3, seed=1), tuple[float, ...])
assert_type(policy.explain(), Explanation)
assert_type(policy.replace(attempts=2), Retry)
assert_type(perdure.classify(OSError()), Fault)
assert_type(perdure.permanent(KeyError("x")), KeyError)
assert_type(perdure.transient(OSError(), after=2.0), OSError)
assert_type(perdure.time_left(), float | None)
assert_type(perdure.time_left(default=5.0), float)
assert_type(perdure.current(), perdure.Current | None)


def on_event(event: Event) -> None:
    assert_type(event.name, str)


assert_type(perdure.listen(on_event), Callable[[], None])


def use_deadlines() -> None:
    with perdure.deadline(2):
        plain("/")
    with perdure.no_deadline():
        plain("/")


async def use_async_deadlines() -> None:
    async with perdure.deadline(2):
        await later("/")


# Options: each form that is documented, and what is none.


def is_busy(error: Exception) -> bool:
    return "busy" in str(error)


def is_queued(value: str) -> bool:
    return value == "queued"


Retry(
    attempts=None,
    backoff=perdure.Constant(1).after_immediate(),
    on=is_busy,
    never=(KeyError, FaultKind.STALE),
    reject=is_queued,
    deadline=perdure.FOREVER,
    attempt_timeout=5,
    shrink=0.8,
    safety=Safety.KEYED,
    nested="outer",
    refresh=lambda: None,
    hint_cap=60,
    on_exhausted="return",
    name="fetch",
)
Retry(on=OSError, never=FaultKind.AMBIGUOUS, on_exhausted=lambda told: told.attempts)
Retry(attempts="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Retry(on=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Retry(nested="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Retry(tries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Retry(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
perdure.retry(tries=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
policy.attempts = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# A dependency, its views and its parts.

payments = perdure.Dependency(
    "payments",
    retry=Retry(attempts=3),
    timeouts=perdure.Timeouts(read=5, total=20),
    budget=perdure.Budget(max_ratio=0.1),
    gate=perdure.Gate.throttle(k=2),
    breaker=perdure.Breaker(failures=3, mode="shadow"),
    rate_limit=perdure.RateLimit(100, per=1, max_wait=2),
    bulkhead=perdure.Bulkhead(10, queue=5),
    hedge=perdure.Hedge(delay=0.1),
    fallback=perdure.Fallback(value=None),
    safety=Safety.SAFE,
    on_exhausted=lambda told: told.attempts,
    key=plain,
)
perdure.Dependency("bare", retry=None, budget=None, gate=None)
eu = payments.at("eu-west")
patient = payments.using(retry=None, timeouts=None, fallback=perdure.Fallback(plain))

assert_type(payments(plain)("/"), bytes)
assert_type(payments.call(plain, "/"), bytes)
assert_type(payments.outcome(plain, "/"), Outcome[bytes])
assert_type(payments.name, str)
assert_type(perdure.dependencies(), dict[str, perdure.Dependency])
payments.call(plain, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
payments.using(breaker=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
perdure.Dependency("x", breaker=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
perdure.Breaker(tries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@patient
async def pay(amount: int) -> str:
    return str(amount)


@eu
def stored(amount: int) -> str:
    return str(amount)


async def use_dependency() -> None:
    assert_type(await pay(3), str)
    assert_type(stored(3), str)
    assert_type(await payments.outcome(later, "/"), Outcome[bytes])
    assert_type(await eu.call(later, "/"), bytes)
    for attempt in payments:
        with attempt:
            assert_type(attempt.result(3), int)
    async for attempt in eu:
        with attempt:
            assert_type(attempt.number, int)
    assert_type(perdure.carry(plain)("/"), bytes)
