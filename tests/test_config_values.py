"""Every field outside its range: one line that names the field, the range and the value."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import FaultKind, Retry, Safety

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure import Backoff

HUGE = 10**400
NOT_AMOUNTS = [-1, -1e-9, math.nan, math.inf, -math.inf, HUGE, True, None, "1", [], 1j]


async def asynchronous(_value: object = None) -> bool:
    return True


async def async_generator(_value: object = None) -> Any:
    yield True


class AsyncCallable:
    async def __call__(self, _value: object = None) -> bool:
        return True

    async def method(self, _value: object = None) -> bool:
        return True


COROUTINES = [
    asynchronous,
    async_generator,
    functools.partial(asynchronous),
    AsyncCallable(),
    AsyncCallable().method,
]


def refused(make: Callable[[], object], field: str, value: object, range_: str = "must be") -> None:
    with pytest.raises(perdure.ConfigError) as caught:
        make()
    message = str(caught.value)
    assert message.startswith(field), message
    assert range_ in message
    assert repr(value) in message, "the value that was given"
    assert "\n" not in message
    assert isinstance(caught.value, ValueError)


# -- Retry ---------------------------------------------------------------------------------------------

RETRY: dict[str, tuple[list[Any], str]] = {
    "attempts": ([0, -1, 1.0, 2.5, "3", True, math.inf], "a whole number >= 1, or None"),
    "backoff": ([None, 1, "full", [1, 2], perdure.Exponential], "must be a backoff"),
    "deadline": (
        [-1, math.nan, math.inf, -math.inf, HUGE, True, "30", []],
        "a finite number of seconds >= 0",
    ),
    "attempt_timeout": ([0, -1, math.nan, math.inf, HUGE, True, "2", []], "a finite number of seconds > 0"),
    "shrink": ([0, -0.5, 1.0001, 2, math.nan, math.inf, HUGE, True, "1", None], "a factor in (0, 1]"),
    "safety": (["safe", "SAFE", 1, True, FaultKind.STALE], "must be Safety.SAFE, KEYED or UNSAFE"),
    "nested": (["Inner", "", None, 1, [], {}], '"inner", "outer" or "both"'),
    "refresh": ([1, "token", []], "must be a callable"),
    "hint_cap": ([-1, math.nan, math.inf, HUGE, True, None, "300"], "a finite number of seconds >= 0"),
    "reject": ([1, "bad", [], (None,)], "must be a callable"),
    "on_exhausted": ([1, "raise", "Return", [], ""], "must be"),
    "name": (["", 1, b"name", []], "a string that is not empty"),
    "on": (
        [
            1,
            "ConnectionError",
            [ConnectionError],
            {ConnectionError},
            (1,),
            ("x",),
            (len,),
            ((OSError,),),
            object(),
        ],
        "must be",
    ),
    "never": ([1, "ConnectionError", [ConnectionError], (None,), (lambda error: True,)], "must be"),
}


def test_every_field_of_retry_is_tried() -> None:
    fields = {name for name, field in Retry.__dataclass_fields__.items() if field.init}
    assert set(RETRY) == fields


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, (values, _) in RETRY.items() for value in values]
)
@pytest.mark.parametrize(
    "build",
    [Retry, perdure.retry, lambda **options: Retry().replace(**options)],
    ids=["Retry", "retry", "replace"],
)
def test_a_value_outside_its_range_is_refused_when_the_policy_is_built(
    build: Any, field: str, value: Any
) -> None:
    range_ = RETRY[field][1]
    inner = value[0] if field in {"on", "never"} and isinstance(value, tuple) else value
    refused(lambda: build(**{field: value}), field, inner, range_)


@pytest.mark.parametrize("field", ["on", "never"])
@pytest.mark.parametrize("kind", [BaseException, KeyboardInterrupt, SystemExit, GeneratorExit, int, type])
def test_only_exceptions_can_be_named(field: str, kind: type) -> None:
    refused(lambda: Retry(**{field: kind}), field, kind, "takes Exception types")
    refused(lambda: Retry(**{field: (ConnectionError, kind)}), field, kind, "takes Exception types")


@pytest.mark.parametrize("field", ["on", "never", "reject", "on_exhausted"])
@pytest.mark.parametrize("hook", COROUTINES, ids=range(len(COROUTINES)))
def test_a_hook_that_decides_at_once_cannot_be_a_coroutine_function(field: str, hook: Any) -> None:
    refused(lambda: Retry(**{field: hook}), field, hook, "must be a plain function")


def test_a_refresh_may_be_a_coroutine_function() -> None:
    assert Retry(refresh=asynchronous).refresh is asynchronous


def test_without_attempts_and_without_a_deadline_there_is_no_bound_and_that_must_be_said() -> None:
    refused(
        lambda: Retry(attempts=None, deadline=None), "attempts=None needs a deadline", None, "perdure.FOREVER"
    )
    assert Retry(attempts=None, deadline=perdure.FOREVER).attempts is None
    assert Retry(attempts=None, deadline=5).deadline == 5


@pytest.mark.parametrize("changed", ["atempts", "retries", "selector", "is_plain"])
def test_a_field_that_does_not_exist_is_refused(changed: str) -> None:
    with pytest.raises(perdure.ConfigError, match=rf"^{changed} is not a field of Retry"):
        Retry().replace(**{changed: 3})
    with pytest.raises(TypeError, match=changed):
        Retry(**{changed: 3})


@pytest.mark.parametrize("options", [(3,), (4, perdure.Constant(1))])
def test_fields_go_by_keyword(options: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="positional"):
        Retry(*options)


@pytest.mark.parametrize(
    "misplaced",
    [3, ConnectionError, (OSError, ValueError), Retry(), perdure.Constant(1), "name", FaultKind.STALE, [len]],
    ids=repr,
)
def test_options_of_retry_given_by_position_are_refused_and_the_way_out_is_named(misplaced: Any) -> None:
    with pytest.raises(
        perdure.ConfigError, match=r"options go by keyword, as in retry\(on=OSError, attempts=5\), got "
    ):
        perdure.retry(misplaced)


@pytest.mark.parametrize("misplaced", [3, None, "fn", [len]])
@pytest.mark.parametrize("method", ["__call__", "call", "outcome"])
def test_what_cannot_be_called_is_refused(method: str, misplaced: Any) -> None:
    with pytest.raises(perdure.ConfigError, match="callable"):
        getattr(Retry(), method)(misplaced)


def test_the_result_of_a_call_instead_of_the_function_is_refused() -> None:
    coroutine = asynchronous()
    with pytest.raises(perdure.ConfigError, match="not the result of calling it"):
        Retry().call(coroutine)  # type: ignore[arg-type]
    coroutine.close()


@given(
    attempts=st.one_of(st.none(), st.integers(1, 10**9)),
    deadline=st.floats(0, 1e15),
    attempt_timeout=st.one_of(st.none(), st.floats(0, 1e15, exclude_min=True)),
    shrink=st.floats(0, 1, exclude_min=True),
    hint_cap=st.floats(0, 1e15),
    safety=st.one_of(st.none(), st.sampled_from(Safety)),
    nested=st.sampled_from(("inner", "outer", "both")),
    on=st.one_of(st.none(), st.lists(st.sampled_from((OSError, ValueError, *FaultKind))).map(tuple)),
    name=st.one_of(st.none(), st.text(min_size=1)),
)
def test_every_value_in_range_makes_a_policy_that_is_a_value(**options: Any) -> None:
    policy = Retry(**options)
    same = Retry(**options)
    assert policy == same
    assert hash(policy) == hash(same)
    assert policy.replace() == policy
    assert copy.deepcopy(policy) == pickle.loads(pickle.dumps(policy)) == policy
    assert all(f"{name}=" in repr(policy) for name in RETRY)


@given(
    st.sampled_from(sorted(RETRY)),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
)
def test_any_value_at_all_makes_a_policy_or_a_config_error(field: str, value: Any) -> None:
    try:
        policy = Retry(**{field: value})
    except perdure.ConfigError as error:
        message = str(error)
    else:
        message = f"{field}={getattr(policy, field)!r}"
    assert message.startswith(field)


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Retry().attempts = 5  # type: ignore[misc]


# -- backoffs ------------------------------------------------------------------------------------------

BACKOFFS: dict[str, tuple[Callable[[Any], object], list[Any], str]] = {
    "base": (lambda value: perdure.Exponential(base=value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "cap": (
        lambda value: perdure.Exponential(base=0, cap=value),
        NOT_AMOUNTS,
        "a finite number of seconds >= 0",
    ),
    "factor": (
        lambda value: perdure.Exponential(factor=value),
        [0.99, 0, *NOT_AMOUNTS],
        "a finite number >= 1",
    ),
    "step": (lambda value: perdure.Linear(value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "cap ": (lambda value: perdure.Linear(0, cap=value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "first": (lambda value: perdure.Incremental(value, 1), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "step ": (lambda value: perdure.Incremental(1, value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "cap  ": (
        lambda value: perdure.Incremental(0, 1, cap=value),
        NOT_AMOUNTS,
        "a finite number of seconds >= 0",
    ),
    "delay": (lambda value: perdure.Constant(value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "unit": (lambda value: perdure.Fibonacci(value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "cap   ": (lambda value: perdure.Fibonacci(0, cap=value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "delays[1]": (lambda value: perdure.Schedule([1, value]), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "base ": (lambda value: perdure.Decorrelated(value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
    "cap    ": (lambda value: perdure.Decorrelated(0, value), NOT_AMOUNTS, "a finite number of seconds >= 0"),
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, (_, values, _) in BACKOFFS.items() for value in values]
)
def test_a_number_of_a_backoff_outside_its_range_is_refused(field: str, value: Any) -> None:
    make, _, range_ = BACKOFFS[field]
    refused(lambda: make(value), field.strip(), value, range_)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: perdure.Exponential(base=6, cap=5), "base"),
        (lambda: perdure.Exponential(base=6), "base"),
        (lambda: perdure.Linear(6, cap=5), "step"),
        (lambda: perdure.Incremental(6, 1, cap=5), "first"),
        (lambda: perdure.Fibonacci(6, cap=5), "unit"),
        (lambda: perdure.Decorrelated(6), "base"),
    ],
)
def test_a_start_above_the_cap_is_refused(make: Any, field: str) -> None:
    refused(make, field, 6, "must be <= cap (5 s)")


@pytest.mark.parametrize("delays", [[], (), None, 3, "12", {}], ids=repr)
def test_a_schedule_needs_delays(delays: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^delays"):
        perdure.Schedule(delays)


WITH_JITTER: list[Callable[[Any], Backoff]] = [
    lambda jitter: perdure.Exponential(jitter=jitter),
    lambda jitter: perdure.Linear(1, jitter=jitter),
    lambda jitter: perdure.Incremental(1, 1, jitter=jitter),
    lambda jitter: perdure.Constant(1, jitter=jitter),
    lambda jitter: perdure.Fibonacci(jitter=jitter),
    lambda jitter: perdure.Schedule([1], jitter=jitter),
]


@pytest.mark.parametrize("make", WITH_JITTER, ids=range(len(WITH_JITTER)))
@pytest.mark.parametrize(
    "jitter",
    ["Full", "half", "", 0, 1.5, -0.1, math.nan, math.inf, HUGE, True, None, [], {}, *COROUTINES],
    ids=repr,
)
def test_a_jitter_that_is_none_is_refused(make: Any, jitter: Any) -> None:
    refused(lambda: make(jitter), "jitter", jitter, "full, equal, coherent, none, a fraction in (0, 1]")


@pytest.mark.parametrize("make", WITH_JITTER, ids=range(len(WITH_JITTER)))
@pytest.mark.parametrize(
    "jitter", ["full", "equal", "coherent", "none", 1, 0.001, lambda raw, rng: raw * rng()]
)
def test_every_jitter_there_is_is_taken(make: Any, jitter: Any) -> None:
    assert make(jitter).jitter == jitter


EVERY = [
    *(make("full") for make in WITH_JITTER),
    perdure.Decorrelated(),
    perdure.Exponential().after_immediate(),
]


@pytest.mark.parametrize("backoff", EVERY, ids=repr)
def test_a_backoff_is_a_value(backoff: Backoff) -> None:
    same = copy.deepcopy(backoff)
    assert same == pickle.loads(pickle.dumps(backoff)) == backoff
    assert hash(same) == hash(backoff)
    assert repr(backoff).startswith(type(backoff).__name__)
    for field in ("cap", "jitter", "another"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(backoff, field, 3.0)


@pytest.mark.parametrize("backoff", EVERY[:-1], ids=repr)
def test_a_repr_is_what_one_would_write(backoff: Backoff) -> None:
    assert eval(repr(backoff), vars(perdure)) == backoff  # noqa: S307 - of our own text
