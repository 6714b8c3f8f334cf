"""What else a guarded function is: its name, its place in a module, its colour to every tool that looks."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import pickle
import pydoc
import sys
import threading
import typing
import weakref
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Constant, Retry
from perdure.testing import VirtualClock, no_waits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import FrameType

POLICY = Retry(attempts=3, backoff=Constant(0))


@POLICY
def fetch(url: str, *, timeout: float = 1.0) -> bytes:
    """Fetch a page."""
    return f"{url} {timeout}".encode()


@POLICY
async def afetch(url: str) -> bytes:
    """Fetch a page later."""
    return url.encode()


@POLICY
def pages(url: str) -> Iterator[str]:
    """Give page after page."""
    yield url


@POLICY
async def later_pages(url: str) -> AsyncIterator[str]:
    """Give page after page, later."""
    yield url


class Client:
    """A client."""

    @POLICY
    def get(self, url: str) -> bytes:
        """Get it."""
        return url.encode()

    @POLICY
    @classmethod
    def of(cls, url: str) -> Client:
        """Make one."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Client)

    def __hash__(self) -> int:
        return 1


GUARDED: list[Callable[..., Any]] = [fetch, afetch, pages, later_pages, Client.get]


@pytest.mark.parametrize("guarded", GUARDED, ids=lambda guarded: guarded.__name__)
def test_a_guarded_function_keeps_name_module_docs_and_annotations(guarded: Any) -> None:
    bare = guarded.__wrapped__
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(guarded, name) == getattr(bare, name)
    assert guarded.__perdure__ is POLICY
    assert inspect.isfunction(guarded)
    assert inspect.unwrap(guarded) is bare
    assert inspect.signature(guarded) == inspect.signature(bare)
    assert inspect.getsource(guarded) == inspect.getsource(bare)
    assert inspect.getdoc(guarded) == inspect.getdoc(bare)
    assert bare.__doc__ in pydoc.plain(pydoc.render_doc(guarded))
    assert repr(guarded).startswith(f"<function {bare.__qualname__} at ")


def test_type_hints_are_read_in_the_functions_own_module() -> None:
    def work(when: Iterator[int]) -> Client:
        return Client()

    work.__annotations__ = {"return": "Client"}
    assert typing.get_type_hints(POLICY(work)) == {"return": Client}
    assert inspect.get_annotations(POLICY(work), eval_str=True) == {"return": Client}


@pytest.mark.parametrize("guarded", GUARDED, ids=lambda guarded: guarded.__name__)
def test_a_guarded_function_pickles_by_reference_and_copies_to_itself(guarded: Any) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(guarded, protocol)) is guarded
    assert pickle.loads(reduction.ForkingPickler.dumps(guarded)) is guarded
    assert copy.copy(guarded) is guarded
    assert copy.deepcopy([guarded])[0] is guarded


def test_bound_guarded_methods_pickle_with_their_object() -> None:
    bound, of_class = (pickle.loads(pickle.dumps(one)) for one in (Client().get, Client.of))
    assert (bound.__func__, bound.__self__, bound("x")) == (Client.get, Client(), b"x")
    assert (of_class, of_class("x")) == (Client.of, Client())


def test_attributes_come_along_and_later_ones_stay_apart() -> None:
    def work() -> None: ...

    work.tag = "before"  # type: ignore[attr-defined] # any attribute
    guarded: Any = POLICY(work)
    assert guarded.tag == "before"
    guarded.own = 1
    assert not hasattr(work, "own")


def test_functools_tools_take_guarded_functions_and_are_guarded_themselves() -> None:
    calls: list[object] = []

    def flaky(value: object) -> object:
        calls.append(value)
        if len(calls) % 3:
            raise ConnectionRefusedError("no")
        return value

    with no_waits():
        assert functools.partial(POLICY(flaky), 1)() == 1
        assert POLICY(functools.partial(flaky, 2))() == 2
        cached = functools.cache(POLICY(flaky))
        assert [cached(3), cached(3)] == [3, 3]
        guarded_cache = POLICY(functools.lru_cache(flaky))
        assert [guarded_cache(4), guarded_cache(4)] == [4, 4]
        assert functools.reduce(POLICY(lambda left, right: left + right), [1, 2, 3]) == 6
        assert functools.wraps(flaky)(POLICY(lambda value: value))(5) == 5
    assert calls == [value for value in (1, 2, 3, 4) for _ in range(3)]


def test_singledispatch_dispatches_to_guarded_functions_and_under_guard() -> None:
    failures = iter(range(2))

    @functools.singledispatch
    @POLICY
    def show(value: object) -> str:
        if next(failures, None) is not None:
            raise ConnectionRefusedError("no")
        return "object"

    @show.register
    @POLICY
    def _show_int(value: int) -> str:
        return "int"

    assert show.dispatch(int) is _show_int
    with no_waits():
        assert [show(1), show("x")] == ["int", "object"]
    again = POLICY(show)
    again.register(float, lambda value: "float")  # type: ignore[attr-defined] # comes along with __dict__
    assert [again(1), again(1.5), again(None)] == ["int", "float", "object"]


def test_guarded_functions_are_keys_have_weak_references_and_go_without_the_collector() -> None:
    def make() -> Any:
        def local(value: list[int]) -> int:
            return len(value)

        return POLICY(local)

    guarded = make()
    for _ in range(100):
        assert guarded([1]) == 1
    assert {guarded: 1}[guarded] == 1
    gone = weakref.ref(guarded)
    gc.collect()
    gc.disable()
    try:
        del guarded
        assert gone() is None
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_thousand_functions_of_one_shape_share_what_was_generated() -> None:
    gc.collect()
    guarded = [POLICY(eval(f"lambda a, b={number}: (a, b)")) for number in range(1000)]  # noqa: S307 - our own
    assert [one(1) for one in guarded] == [(1, number) for number in range(1000)]
    from perdure.engine import source

    before = len(source._makers)
    for _ in range(100):
        POLICY(lambda a, b=1: (a, b))
    assert len(source._makers) == before


def test_endless_new_parameter_names_do_not_fill_the_memory() -> None:
    from perdure.engine import source

    for number in range(3000):
        guarded = POLICY(eval(f"lambda parameter_{number}: parameter_{number}"))  # noqa: S307 - our own
    assert guarded(7) == 7
    assert len(source._makers) <= 2000


def traced(function: Callable[[], object]) -> list[str]:
    """The names of the functions of this file that a debugger or coverage would see."""
    seen: list[str] = []

    def tracer(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename == __file__:
            seen.append(f"{event} {frame.f_code.co_name}")
        return tracer

    earlier = sys.gettrace()
    sys.settrace(tracer)
    try:
        function()
    finally:
        sys.settrace(earlier)
    return seen


@pytest.mark.parametrize("virtual", [False, True])
def test_a_debugger_sees_every_line_of_every_attempt(virtual: bool) -> None:
    attempts = iter(range(3))

    def work() -> str:
        if next(attempts) < 2:
            raise ConnectionRefusedError("no")
        return "ok"

    guarded = POLICY(work)
    with VirtualClock() if virtual else no_waits():
        seen = traced(lambda: [guarded() for _ in range(1)])
    assert seen.count("call work") == 3
    assert seen.count("exception work") == 2
    assert seen.count("line work") == 2 + 2 + 2


def test_profilers_and_tracebacks_name_the_function_not_the_wrapper() -> None:
    code = fetch.__code__
    assert (code.co_name, code.co_qualname) == ("fetch", "fetch")
    assert (Client.get.__code__.co_name, Client.get.__code__.co_qualname) == ("get", "Client.get")
    assert pages.__code__.co_name == "pages"
    assert later_pages.__code__.co_name == "later_pages"


def test_guarded_functions_are_thread_targets_and_executor_work() -> None:
    seen: list[bytes] = []
    thread = threading.Thread(target=POLICY(lambda: seen.append(fetch("x"))))
    thread.start()
    thread.join(10)
    assert seen == [b"x 1.0"]

    async def main() -> bytes:
        return await asyncio.to_thread(fetch, "y", timeout=2)

    assert asyncio.run(main()) == b"y 2"


def test_every_colour_is_told_apart_by_inspect() -> None:
    asked = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    assert [[ask(one) for ask in asked] for one in (fetch, afetch, pages, later_pages)] == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


@pytest.mark.parametrize("builtin", [len, sorted, dict.fromkeys, "".join, int], ids=lambda one: one.__name__)
def test_builtins_may_be_guarded(builtin: Any) -> None:
    guarded = perdure.retry(builtin)
    assert guarded("12") == builtin("12")
    assert guarded.__name__ == builtin.__name__
    assert guarded.__doc__ == builtin.__doc__
