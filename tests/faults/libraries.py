"""Finds the exception classes that a library has."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from perdure.faults.custom import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["exceptions_in", "without_row"]


def exceptions_in(*modules: Any) -> list[type[Exception]]:
    """Every exception class that a module names and that is its package's own, without warnings."""
    found = {
        value: None
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
        if _package(value.__module__) == _package(module.__name__)
    }
    return sorted(found, key=name_of)


def without_row(classes: Iterable[type[Exception]], rules: dict[str, Any]) -> set[str]:
    """The names of those that no row is for, neither for the class nor for a base from the same library."""
    return {
        cls.__name__
        for cls in classes
        if not any(name_of(base) in rules for base in cls.__mro__ if base.__module__ != "builtins")
    }


def _package(module: str) -> str:
    return module.partition(".")[0]
