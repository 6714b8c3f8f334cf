"""Servers started for tests: each in a folder and on a port of its own, and ended by its process id.

A program that refuses to run as root runs as its own user.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = [
    "STANDARD",
    "Address",
    "end",
    "private_mariadb",
    "private_nats",
    "private_postgres",
    "private_redis",
    "stop",
]

START = 30
"""Seconds within which a server of our own says that it is ready."""


@dataclass(frozen=True)
class Address:
    """Where a server is and as whom it is used."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""
    database: str = ""
    pid: int | None = None  # of a server that was started here

    @property
    def url(self) -> str:
        """`scheme://user:password@host:port/database`, without the parts that are empty."""
        secret = f":{self.password}" if self.password else ""
        login = f"{self.user}{secret}@" if self.user else ""
        return f"{self.scheme}://{login}{self.host}:{self.port}/{self.database}"


STANDARD = {
    "postgres": Address("postgresql", "127.0.0.1", 5432, "postgres", database="postgres"),
    "mariadb": Address("mysql", "127.0.0.1", 3306, "root", database="test"),
    "redis": Address("redis", "127.0.0.1", 6379, database="0"),
    "rabbitmq": Address("amqp", "127.0.0.1", 5672, "guest", "guest"),
    "nats": Address("nats", "127.0.0.1", 4222),
}


_running: dict[int, tuple[subprocess.Popen[str], threading.Thread, Path]] = {}


def private_redis() -> Address:
    """Start a Redis that nobody else uses.

    Raises:
        LookupError: it is not installed, or did not start.
    """
    program = _program("redis-server", "valkey-server")
    port = _free_port()
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    folder = _folder()
    pid = _start([program, *options, "--dir", str(folder)], folder, ready="Ready to accept connections")
    return replace(STANDARD["redis"], port=port, pid=pid)


def private_postgres() -> Address:
    """Start a PostgreSQL that nobody else uses; its settings are in the `data_directory` that it shows.

    Raises:
        LookupError: it is not installed, or did not start.
    """
    initdb, server = _program("initdb"), _program("postgres")
    as_user = _as_user("postgres")
    folder = _folder(owner="postgres")
    data = str(folder / "data")
    _run(
        [
            *as_user,
            initdb,
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "--locale=C",
            "-E",
            "UTF8",
        ]
    )
    port = _free_port()
    options = [f"-cport={port}", "-clisten_addresses=127.0.0.1", "-cunix_socket_directories=", "-cfsync=off"]
    pid = _start([*as_user, server, "-D", data, *options], folder, ready="ready to accept connections")
    return replace(STANDARD["postgres"], port=port, pid=pid)


def private_mariadb() -> Address:
    """Start a MariaDB that nobody else uses.

    Raises:
        LookupError: it is not installed, or did not start.
    """
    install, server = _program("mariadb-install-db"), _program("mariadbd")
    as_user = _as_user("mysql")
    folder = _folder(owner="mysql")
    data = f"--datadir={folder / 'data'}"
    _run([*as_user, install, "--no-defaults", data, "--auth-root-authentication-method=normal"])
    port = _free_port()
    options = [data, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 's'}"]
    pid = _start([*as_user, server, "--no-defaults", *options], folder, ready="ready for connections")
    return replace(STANDARD["mariadb"], port=port, pid=pid)


def private_nats() -> Address:
    """Start a NATS server that nobody else uses.

    Raises:
        LookupError: it is not installed, or did not start.
    """
    program, port, folder = _program("nats-server"), _free_port(), _folder()
    options = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    pid = _start([program, *options], folder, ready="Server is ready")
    return replace(STANDARD["nats"], port=port, pid=pid)


def _program(*names: str) -> str:
    """The path of the first that is installed: distributions keep PostgreSQL's beside the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", *map(str, versions)])
    found = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    if found is None:
        raise LookupError(f"{names[0]} is not installed")
    return found


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _as_user(user: str) -> list[str]:
    """What to put before a command that refuses to run as root."""
    if not _is_root():
        return []
    return [_program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def _folder(owner: str | None = None) -> Path:
    """A new folder, removed at the end: pytest's own is closed to the other users that servers run as."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-service-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if owner is not None and _is_root():
        shutil.chown(folder, owner, owner)
    return folder


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START, check=False
    )
    if done.returncode:
        raise LookupError(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-200:]}")


def _start(command: list[str], folder: Path, *, ready: str) -> int:
    """Start a server and wait until it says `ready`; its output is read to the end, so that it never blocks."""
    process = subprocess.Popen(
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said: list[str] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if not settled.is_set():
                    said.append(line)
                    if ready in line:
                        settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    _running[process.pid] = process, reader, folder
    settled.wait(START)
    if not said or ready not in said[-1]:
        end(replace(STANDARD["redis"], pid=process.pid))
        raise LookupError(f"{Path(command[0]).name} did not start: {''.join(said)[-200:].strip()}")
    return process.pid


def end(address: Address) -> None:
    """End a server that was started here, if it still runs, and remove its folder."""
    process, reader, folder = _running.pop(address.pid or 0)
    # At once: the data is thrown away. PostgreSQL has child processes to end, and takes this signal for it.
    process.send_signal(signal.SIGQUIT if "postgres" in str(process.args) else signal.SIGKILL)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
    reader.join(10)
    shutil.rmtree(folder, ignore_errors=True)


def stop() -> None:
    """End every server that was started here."""
    for pid in list(_running):
        end(replace(STANDARD["redis"], pid=pid))
