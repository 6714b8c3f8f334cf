"""A server of aiohttp on the loopback interface, in a process of its own, for rows 10.aiohttp.

Run as a module it is the server: it says where it listens, and ends when its input does. ``/ok`` always answers
well, ``/fails/NAME`` with 503, 503, 200 in turn, ``/down/NAME`` with 503; ``/served/NAME`` says how often.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_HOUR = 3600.0
_PATIENCE = 10.0
_NAMES = count(1)
_FAILS = {"fails": (503, 503, 200), "down": (503,), "ok": (200,)}

_process: subprocess.Popen[str] | None = None
_base = ""


def url(how: str) -> str:
    """An address that answers in this way, counted by itself. Starts the server with the first.

    Raises:
        ImportError: aiohttp is not installed.
        RuntimeError: the server does not start.
    """
    global _process, _base  # noqa: PLW0603 - one server serves all rows
    import aiohttp  # noqa: F401 - says so here, and not in a process that ends without a word

    if _process is None:
        _process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.http_server"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = "" if _process.stdout is None else _process.stdout.readline().strip()
        if not said:
            stop()
            raise RuntimeError("the server of rows 10.aiohttp did not start")
        _base = said
    return f"{_base}/{how}/{next(_NAMES)}"


def stop() -> None:
    """End the server, if it runs."""
    global _process
    process, _process = _process, None
    if process is None:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_PATIENCE)


async def serve() -> None:
    """Serve until the input ends."""
    from aiohttp import web

    served: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        name = request.path
        statuses = _FAILS[request.match_info["how"]]
        served[name] += 1
        status = statuses[(served[name] - 1) % len(statuses)]
        return web.Response(
            status=status, body=b'{"message": "as expected"}', content_type="application/json"
        )

    async def tell(request: web.Request) -> web.Response:
        return web.Response(text=str(served[request.path.removeprefix("/served")]))

    app = web.Application()
    app.router.add_get("/served/{how}/{name}", tell)
    app.router.add_get("/{how:ok|fails|down}/{name}", answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=_HOUR)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sockets: Any = runner.addresses
    print(f"http://127.0.0.1:{sockets[0][1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def _leave_the_core() -> None:
    """Keep off the core that the measuring process is pinned to, where there is another one."""
    if hasattr(os, "sched_setaffinity"):
        mine = os.sched_getaffinity(0)
        others = set(range(os.cpu_count() or 1)) - mine
        try:
            os.sched_setaffinity(0, others or mine)
        except OSError:
            return


if __name__ == "__main__":
    _leave_the_core()
    asyncio.run(serve())
