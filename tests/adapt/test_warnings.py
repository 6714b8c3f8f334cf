"""A policy says once that the client behind a method retries by itself, however the method is given to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import urllib3

import perdure
from perdure import Dependency, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS: dict[str, Callable[[Any, Any], object]] = {
    "decorator": lambda policy, method: policy(method),
    "call": lambda policy, method: policy.outcome(policy.call, method, "GET", "http://127.0.0.1:1"),
    "outcome": lambda policy, method: policy.outcome(method, "GET", "http://127.0.0.1:1"),
}


def policies() -> list[Any]:
    return [Retry(deadline=None), Dependency("warned", replace=True)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [0, 1], ids=["retry", "dependency"])
def test_a_client_that_retries_is_named_once(way: str, number: int) -> None:
    with urllib3.PoolManager(retries=3) as manager, perdure.testing.no_waits():
        with pytest.warns(RuntimeWarning, match=r"PoolManager.*perdure\.adapt"):
            WAYS[way](policies()[number], manager.request)
        WAYS[way](policies()[number], manager.request)  # a second warning would be an error


@pytest.mark.parametrize("way", WAYS)
def test_an_adapted_client_is_not_warned_of(way: str, recwarn: pytest.WarningsRecorder) -> None:
    with urllib3.PoolManager(retries=3) as manager, perdure.testing.no_waits():
        perdure.adapt(manager)
        WAYS[way](Retry(deadline=None), manager.request)
    assert not recwarn.list


def test_the_engine_and_the_adapters_know_the_same_clients() -> None:
    from perdure.adapt import known
    from perdure.engine import clients

    assert set(known._ADAPTERS) == clients.PACKAGES
