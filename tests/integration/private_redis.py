"""Redis servers of a test's own, with settings of its own, and clients that do not retry by themselves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration import services

__all__ = ["PrivateRedis", "end", "start"]

_running: list[tuple[subprocess.Popen[bytes], str]] = []


def start(*options: str) -> PrivateRedis:
    """Start a server that runs until `end()`; the test is skipped, and says so, where none is installed."""
    pytest.importorskip("redis")
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        services.missing["redis"] = "redis-server is not installed"
        pytest.skip(f"no redis: {services.missing['redis']}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="perdure-redis-")
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder]
    allowed = ["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]
    command = [program, *settings, *allowed, *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _running.append((process, folder))
    while not _listens(port):
        assert process.poll() is None, "the server ended at once"
    return PrivateRedis(port)


def end() -> None:
    """End every server that was started here. There is nothing that it would have to save."""
    while _running:
        process, folder = _running.pop()
        process.kill()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@dataclass(frozen=True)
class PrivateRedis:
    """Where the server is, and clients for it."""

    port: int

    def client(self, **options: Any) -> Any:
        """Give a client that makes one attempt: redis-py makes four on its own since version 6."""
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        settings = {"host": "127.0.0.1", "port": self.port, "retry": Retry(NoBackoff(), 0), **options}
        return Redis(**settings)

    def async_client(self, **options: Any) -> Any:
        """Give the same client for asyncio."""
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        settings = {"host": "127.0.0.1", "port": self.port, "retry": Retry(NoBackoff(), 0), **options}
        return Redis(**settings)
