"""Exceptions and requests of client libraries that no table knows."""

from __future__ import annotations

from types import SimpleNamespace


class ForeignError(Exception):
    """As a client library makes one: whatever it was given becomes an attribute."""

    def __init__(self, **fields: object) -> None:
        super().__init__(*fields)
        self.__dict__.update(fields)


class HTTPFailure(ForeignError):
    """One whose name says what its code is."""


class NoRequestError(Exception):
    """Properties that raise when a part is missing, as httpx has them."""

    @property
    def request(self) -> object:
        raise RuntimeError("The request property has not been set.")

    response = request


def request(method: object, headers: object = None) -> SimpleNamespace:
    return SimpleNamespace(method=method, headers=headers)
