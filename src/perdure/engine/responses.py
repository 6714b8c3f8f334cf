"""Responses of HTTP clients, as far as the engine has to do with them: what is noted on one, and how one is let go.

The integrations say which classes are responses. A response that will not be looked at holds a connection, so it is
closed before the wait, and so is one that lost against its hedge. An error while closing says nothing: the
connection was broken, or is now.
"""

from __future__ import annotations

from perdure.errors import FaultyResponse, ResultRejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from perdure.engine.trail import Trail

__all__ = ["HOLDERS", "KEY", "KINDS", "aclose", "adrop", "alet_go", "close", "drop", "let_go", "note"]

KEY = "_perdure_trail"

KINDS: dict[type, tuple[Callable[[Any], object] | None, Callable[[Any], Awaitable[object]] | None]] = {}
"""The classes of responses, each with how one is closed in sync and in async code."""


HOLDERS = frozenset({FaultyResponse, ResultRejected})
"""The errors that may hold a response."""


def note(response: object, trail: Trail) -> None:
    """Leave the record of the attempts on a response, for ``perdure.attempts_of``."""
    try:
        vars(response)[KEY] = trail
    except TypeError:  # a class with slots: then there is no record
        return


def close(faulty: FaultyResponse) -> None:
    """Let go of the connection under a response that is a failure and will not be looked at."""
    done, faulty.close = faulty.close, None
    if done is not None:
        try:
            done()
        except Exception:  # noqa: BLE001, S110 - see above
            pass


async def aclose(faulty: FaultyResponse) -> None:
    """The same where it has to be awaited."""
    done, faulty.aclose = faulty.aclose, None
    if done is not None:
        try:
            await done()
        except Exception:  # noqa: BLE001, S110 - see above
            pass


def let_go(error: BaseException) -> None:
    """Let go of what an error holds that is about to be retried."""
    drop(error.result if isinstance(error, ResultRejected) else error)


async def alet_go(error: BaseException | None) -> None:
    """The same where it has to be awaited."""
    await adrop(error.result if isinstance(error, ResultRejected) else error)


def drop(result: object) -> None:
    """Let go of what a hedge that lost came to, a response or a failure that holds one."""
    if type(result) is FaultyResponse:
        close(result)
    elif (kind := KINDS.get(type(result))) is not None and kind[0] is not None:
        try:
            kind[0](result)
        except Exception:  # noqa: BLE001, S110 - see above
            pass


async def adrop(result: object) -> None:
    """The same where it has to be awaited."""
    if type(result) is FaultyResponse:
        await aclose(result)
    elif (kind := KINDS.get(type(result))) is not None and kind[1] is not None:
        try:
            await kind[1](result)
        except Exception:  # noqa: BLE001, S110 - see above
            pass
