"""Every parameter list survives guarding: same calls, same results, same errors, same look; B021."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Constant, Retry
from perdure.testing import VirtualClock, no_waits

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = Retry(attempts=3, backoff=Constant(0), deadline=None)
TIMED = POLICY.replace(deadline=30)
FULL = POLICY.replace(attempt_timeout=9, nested="outer")

# Ordinary names, those that the generated wrapper uses itself, builtins it relies on, and odd ones.
NAMES = [
    "a",
    "b",
    "key",
    "self",
    "cls",
    "args",
    "kwargs",
    "fn",
    "policy",
    "_",
    "__",
    "é",
    "match",
    "type",
    "print",
]
OURS = [
    "_fn",
    "_error",
    "_site",
    "_run",
    "_start",
    "_value",
    "_slow",
    "_now",
    "_failed",
    "_resume",
    "_general",
    "_look",
]
OURS += [
    "_aresume",
    "_ageneral",
    "_make",
    "_wrapper",
    "Exception",
    "BaseException",
    "None_",
    "run",
    "site",
    "error",
]


@dataclass(frozen=True)
class Shape:
    """A parameter list: how many of each kind, and the names in order."""

    positional_only: int
    regular: int
    keyword_only: int
    rest: bool
    keywords: bool
    defaults: int
    keyword_defaults: tuple[bool, ...]
    names: tuple[str, ...]

    def source(self, kind: str) -> str:
        """The function: it says what it got, and fails as often as ``failures`` says."""
        positional = self.names[: self.positional_only + self.regular]
        keyword_only = self.names[len(positional) : len(positional) + self.keyword_only]
        rest, keywords = self.names[-2:]
        first_default = len(positional) - min(self.defaults, len(positional))
        listed = [
            name if at < first_default else f"{name}=DEFAULTS[{at}]" for at, name in enumerate(positional)
        ]
        if self.positional_only:
            listed.insert(self.positional_only, "/")
        if self.rest:
            listed.append(f"*{rest}")
        elif keyword_only:
            listed.append("*")
        given_defaults = zip(keyword_only, self.keyword_defaults, strict=True)
        listed += [f"{name}=DEFAULTS[-1]" if given else name for name, given in given_defaults]
        listed += [f"**{keywords}"] if self.keywords else []
        got = [
            *positional,
            *keyword_only,
            *([rest] if self.rest else []),
            *([keywords] if self.keywords else []),
        ]
        values = "".join(f"{name}, " for name in got)
        return f"{kind}def function({', '.join(listed)}):\n    return ANSWER(({values}))\n"


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    counts = [draw(st.integers(0, 3)) for _ in range(3)]
    wanted = sum(counts) + 2
    names = draw(st.lists(st.sampled_from(NAMES + OURS), min_size=wanted, max_size=wanted, unique=True))
    keyword_defaults = draw(st.lists(st.booleans(), min_size=counts[2], max_size=counts[2]))
    booleans = [draw(st.booleans()) for _ in range(2)]
    return Shape(*counts, *booleans, draw(st.integers(0, 6)), tuple(keyword_defaults), tuple(names))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Shape, list[int], dict[str, int]]:
    """A parameter list, and arguments that often fit it and sometimes do not."""
    shape = draw(shapes())
    positional = shape.positional_only + shape.regular
    args = draw(st.lists(st.integers(0, 99), min_size=max(0, positional - 1), max_size=positional + 1))
    possible = [*shape.names[len(args) :], *draw(st.lists(st.sampled_from(NAMES + OURS), max_size=2))]
    kwargs = draw(st.dictionaries(st.sampled_from(possible), st.integers(0, 99)) if possible else st.just({}))
    return shape, args, kwargs


def build(shape: Shape, kind: str, failures: int) -> Callable[..., Any]:
    left = iter(range(failures))

    def answer(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if next(left, None) is not None:
            raise ConnectionRefusedError(repr(values))
        return values

    namespace = {"ANSWER": answer, "DEFAULTS": [object() for _ in range(8)]}
    exec(shape.source(kind), namespace)  # noqa: S102 - a function of any shape
    function: Callable[..., Any] = namespace["function"]  # type: ignore[assignment] # made just now
    function.defaults = namespace["DEFAULTS"]  # type: ignore[attr-defined] # told apart by position below
    return function


def answer_of(function: Callable[..., Any], kind: str, args: list[int], kwargs: dict[str, int]) -> str:
    try:
        made = function(*args, **kwargs)
        values = asyncio.run(made) if kind else made
    except TypeError as error:
        return f"TypeError: {error}"
    except ConnectionRefusedError as error:
        return f"refused: {error}"
    return repr(values)


def same_defaults(text: str, function: Any) -> str:
    """Objects as they print differ from run to run; say which default it is."""
    for at, one in enumerate(function.defaults):
        text = text.replace(repr(one), f"<default {at}>")
    return text


@pytest.mark.parametrize("policy", [POLICY, TIMED, FULL], ids=["plain", "timed", "full"])
@pytest.mark.parametrize("kind", ["", "async "])
@given(call=calls(), failures=st.integers(0, 3), virtual=st.booleans())
def test_a_guarded_function_takes_every_call_as_the_bare_one_does(
    policy: Retry,
    kind: str,
    call: tuple[Shape, list[int], dict[str, int]],
    failures: int,
    virtual: bool,
) -> None:
    """B021: arguments arrive by position, by name and by default, also on the second and third attempt."""
    shape, args, kwargs = call
    bare, flaky = build(shape, kind, 0), build(shape, kind, failures)
    guarded = policy(flaky)
    wanted = same_defaults(answer_of(bare, kind, args, kwargs), bare)
    if failures == 3 and not wanted.startswith("TypeError"):
        wanted = f"refused: {wanted}"
    with VirtualClock() if virtual else no_waits():
        got = same_defaults(answer_of(guarded, kind, args, kwargs), flaky)
    assert got == wanted


@given(shapes())
def test_a_guarded_function_shows_the_signature_of_the_bare_one(shape: Shape) -> None:
    """B021."""
    bare = build(shape, "", 0)
    guarded = POLICY(bare)
    assert inspect.signature(guarded) == inspect.signature(bare)
    if not set(shape.names) & set(OURS):  # else the wrapper has a catch-all form, and __wrapped__ tells
        assert inspect.signature(guarded, follow_wrapped=False) == inspect.signature(bare)
        assert inspect.getfullargspec(guarded) == inspect.getfullargspec(bare)


def test_defaults_are_the_same_objects() -> None:
    """B021."""
    marker = object()

    def function(a: object = marker, *, b: object = marker) -> tuple[object, object]:
        return a, b

    guarded = POLICY(function)
    assert all(one is marker for one in guarded())
    assert guarded.__defaults__ is function.__defaults__
    assert guarded.__kwdefaults__ == function.__kwdefaults__
    assert guarded.__kwdefaults__ is not function.__kwdefaults__


def test_each_attempt_gets_the_same_objects_and_a_fresh_keyword_dict() -> None:
    """B021: what an attempt takes out of its **keywords is there again for the next."""
    seen: list[tuple[object, object]] = []

    def function(body: list[int], **options: object) -> None:
        seen.append((body, options.pop("timeout")))
        body.append(1)
        raise ConnectionRefusedError("no")

    body: list[int] = []
    with no_waits(), pytest.raises(ConnectionRefusedError):
        POLICY(function)(body, timeout=5)
    assert [(one is body, timeout) for one, timeout in seen] == [(True, 5)] * 3
    assert body == [1, 1, 1]


def test_hundreds_of_parameters_are_no_problem() -> None:
    """B021."""
    names = [f"parameter_{number}" for number in range(300)]
    namespace: dict[str, Any] = {}
    exec(f"def function({', '.join(names)}): return ({', '.join(names)})", namespace)  # noqa: S102 - so many
    assert POLICY(namespace["function"])(*range(300)) == tuple(range(300))
    assert POLICY(namespace["function"])(**{name: 1 for name in names}) == (1,) * 300  # noqa: C420 - names


def test_names_mangled_in_a_class_stay_private() -> None:
    """B021: `def f(self, __x)` in a class is called with `_C__x`."""

    class C:
        @POLICY
        def f(self, __x: int) -> int:  # noqa: PYI063 - mangled on purpose
            return __x

    assert C().f(1) == 1
    assert C().f(_C__x=2) == 2


def test_wrong_arguments_are_a_bug_of_the_caller_and_never_retried() -> None:
    """B021: told at the call, with the function's own name, after one look."""
    calls: list[int] = []

    class Client:
        @POLICY
        def send(self, body: int) -> None:
            calls.append(body)

        @POLICY
        async def post(self, body: int) -> None:
            calls.append(body)

    with no_waits() as waits:
        with pytest.raises(
            TypeError, match=r"Client\.send\(\) missing 1 required positional argument: 'body'"
        ):
            Client().send()  # type: ignore[call-arg] # the mistake under test
        with pytest.raises(TypeError, match=r"Client\.post\(\) got an unexpected keyword argument 'bodi'"):
            Client().post(bodi=1)  # type: ignore[call-arg] # told at the call, before anything is awaited
    assert (calls, waits) == ([], [])
