"""The public surface changes only where tests/api.txt changes with it."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools import api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

LISTED = Path(__file__).with_name("api.txt")


def test_the_public_surface_is_the_one_that_is_listed() -> None:
    listed, real = LISTED.read_text().splitlines(), api.render().splitlines()
    change = list(difflib.unified_diff(listed, real, "tests/api.txt", "perdure", lineterm="", n=1))
    assert not change, "if this change is meant, run `make api`:\n" + "\n".join(change)


def undocumented() -> Iterator[str]:
    """Public classes, functions and methods whose docstring is missing, or is the one dataclasses make up."""
    for module in api.public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield from (f"{module.__name__}.{name}.{method}" for method in undocumented_methods(value))
            made_up = inspect.isclass(value) and (value.__doc__ or "").startswith(f"{value.__name__}(")
            if (inspect.isclass(value) or inspect.isroutine(value)) and (made_up or not value.__doc__):
                yield f"{module.__name__}.{name}"


def undocumented_methods(cls: type) -> Iterator[str]:
    for name, value in api.members(cls).items():
        is_method = inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property)
        if is_method and not name.startswith("__") and not inspect.getdoc(getattr(cls, name)):
            yield name


def test_every_public_name_has_a_docstring() -> None:
    assert not list(undocumented())


@pytest.mark.parametrize("module", api.public_modules(), ids=lambda module: module.__name__)
def test_all_names_what_exists_and_once(module: ModuleType) -> None:
    names = list(module.__all__)
    assert len(names) == len(set(names))
    assert all(hasattr(module, name) for name in names)
