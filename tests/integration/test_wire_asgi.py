"""An ASGI application under uvicorn, in a thread."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Callable

assert uvicorn  # the file is left out where it is not installed
PATIENCE = 10


async def echo(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = (await receive())["body"]
    await send(
        {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"%d" % len(body))]}
    )
    await send({"type": "http.response.body", "body": body})


def test_an_asgi_application_runs_in_a_thread() -> None:
    with wire.asgi(echo) as running:
        connection = http.client.HTTPConnection(running.host, running.port, timeout=PATIENCE)
        connection.request("POST", "/x", body=b"abc")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (201, b"abc")
        connection.close()
        assert running.url == f"http://127.0.0.1:{running.port}"
    assert not [thread for thread in threading.enumerate() if thread.name == "asgi"]


async def broken(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed"})


def test_an_asgi_application_that_does_not_start_says_so() -> None:
    with pytest.raises(AssertionError, match="did not start"), wire.asgi(broken):
        pass
