"""Runs an ASGI application under uvicorn in a thread, for a test that needs a real one."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Running", "asgi"]

START_WITHIN = 20  # seconds, on a slow machine


@dataclass(frozen=True)
class Running:
    """Where the application listens; `url` has no slash at the end."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@contextmanager
def asgi(app: Callable[..., Any], **options: Any) -> Iterator[Running]:
    """Serve `app` until the block ends, with its lifespan; `options` go to `uvicorn.Config`."""
    import uvicorn

    ready = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready.set()

    settings: dict[str, Any] = {"log_config": None, "ws": "none", "timeout_graceful_shutdown": 1, **options}
    server = Server(uvicorn.Config(app, **settings))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run([listener])
        except BaseException as failure:  # noqa: BLE001 - uvicorn leaves with SystemExit
            failures.append(failure)
        finally:
            ready.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, name="asgi")
        thread.start()
        try:
            assert ready.wait(START_WITHIN), "the application does not start"
            assert server.started, f"the application did not start: {failures}"
            yield Running("127.0.0.1", listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(START_WITHIN)
    assert not thread.is_alive(), "the application does not end"
    assert not failures, failures
