"""The errors: what they say, whose children they are, that they pickle and are not retried."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import perdure
from perdure.idempotency import errors

KINDS = [getattr(errors, name) for name in errors.__all__]
PROBLEMS = [kind for kind in KINDS if issubclass(kind, errors.KeyProblem)]


def test_every_error_is_listed() -> None:
    own = {one for one in vars(errors).values() if inspect.isclass(one) and one.__module__ == errors.__name__}
    assert own == set(KINDS)
    assert all(issubclass(kind, perdure.PerdureError) for kind in KINDS)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_problems_say_which_key_and_survive_pickling(kind: type[errors.KeyProblem]) -> None:
    error = kind("k-1", "order-17", "api.example.com", 201)
    assert "api.example.com" in str(error)
    if kind is not errors.KeyMissing:
        assert "order-17" in str(error)
        assert "k-1" in str(error)
        assert "201" in str(error)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert vars(other) == vars(error)
        assert str(other) == str(error)


def test_an_unavailable_store_names_the_file() -> None:
    error = pickle.loads(pickle.dumps(errors.StoreUnavailable("keys.sqlite", "locked")))
    assert (error.path, error.reason) == ("keys.sqlite", "locked")
    assert str(error) == "keys.sqlite: locked; the request was not sent"


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_retried_by_default(kind: type[Exception]) -> None:
    assert not perdure.classify(kind()).retryable
