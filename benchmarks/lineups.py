"""The tables of contenders by what they are asked to be, and what is said of all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from benchmarks.aiohttp_contenders import AIOHTTP
from benchmarks.breakers import BREAKERS
from benchmarks.contenders import CONTENDERS, version_of
from benchmarks.http_contenders import HTTP
from benchmarks.stacks import STACKS

if TYPE_CHECKING:
    from benchmarks.contenders import Contender

Lineup = Literal["retry", "breaker", "stack", "http", "aiohttp"]
LINEUPS: dict[Lineup, dict[str, Contender]] = {
    "retry": CONTENDERS,
    "breaker": BREAKERS,
    "stack": STACKS,
    "http": HTTP,
    "aiohttp": AIOHTTP,
}
CLIENTS = ("httpx", "aiohttp")
"""What the requests of rows 10 are made with."""


def is_library(name: str) -> bool:
    """Whether a contender is a library, or several; else it was written here."""
    return any(name in lineup and lineup[name].distribution for lineup in LINEUPS.values())


def notes() -> dict[str, str]:
    """What each contender does differently, by name and, where it is not a retry alone, by what it is."""
    return {
        name if kind == "retry" else f"{name} ({kind})": contender.note
        for kind, lineup in LINEUPS.items()
        for name, contender in lineup.items()
        if contender.note
    }


def versions() -> dict[str, str]:
    """The version of everything compared."""
    names = dict.fromkeys(
        distribution
        for lineup in LINEUPS.values()
        for contender in lineup.values()
        for distribution in (contender.distribution or "").split(" + ")
        if distribution
    )
    names |= dict.fromkeys(CLIENTS)
    return {name: version_of(name) or "not installed" for name in names}
