"""Checks that what retries requests is configured equally, before it is timed; see ``checks``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import http_server
from benchmarks.http_contenders import ATTEMPTS
from benchmarks.waits import removed

if TYPE_CHECKING:
    import asyncio

    from benchmarks.aiohttp_contenders import SessionPlan
    from benchmarks.contenders import Contender
    from benchmarks.http_contenders import HttpPlan


def httpx(contender: Contender, plan: HttpPlan, loop: asyncio.AbstractEventLoop) -> str:
    """A server that is down has to be asked five times, and its last answer, or an error for it, comes out."""
    from benchmarks import http_targets

    server = http_targets.Server(http_targets.DOWN)
    inner = server if plan.face == "transport" else http_targets.httpx.MockTransport(server.answer)
    argument = http_targets.request() if plan.face == "transport" else http_targets.URL

    async def build() -> Any:
        return contender.build(plan)(inner)

    function = loop.run_until_complete(build())
    with removed():
        came = _outcome(lambda: function(argument), plan.colour, loop)
    return _remarks(server.served, came)


def aiohttp(contender: Contender, plan: SessionPlan, loop: asyncio.AbstractEventLoop) -> str:
    """The same of a session."""
    from benchmarks.aiohttp_contenders import session

    url = http_server.url("down")
    base, _, path = url.partition("/down")

    async def served() -> int:
        async with session().get(f"{base}/served/down{path}") as response:
            return int(await response.text())

    async def build() -> Any:
        return contender.build(plan)(url)

    function = loop.run_until_complete(build())
    with removed():
        came = _outcome(function, "async", loop)
    return _remarks(loop.run_until_complete(served()), came)


def _remarks(served: int, came: object) -> str:
    """``came``: a response, its status, or an error that has the one or the other."""
    remarks = [] if served == ATTEMPTS else [f"made {served} attempts instead of {ATTEMPTS}"]
    response = getattr(came, "response", came)
    status = getattr(response, "status_code", getattr(response, "status", response))
    if status != 503:
        remarks.append(f"ended in {type(came).__name__} instead of the last answer or an error for it")
    return "; ".join(remarks)


def _outcome(call: Any, colour: str, loop: asyncio.AbstractEventLoop) -> object:
    async def wait() -> object:
        return await call()

    try:
        return loop.run_until_complete(wait()) if colour == "async" else call()
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return error
