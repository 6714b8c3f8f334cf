"""Fixtures of the tests of dependencies: virtual time, and threads that end with the test."""

from __future__ import annotations

from tests.engine.conftest import clock, threads

__all__ = ["clock", "threads"]
