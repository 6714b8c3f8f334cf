"""Real servers for tests: the one that is there, else one of our own, else the test is skipped and says so.

`postgres()`, `mariadb()`, `redis()`, `rabbitmq()` and `nats()` give the `Address` of a server that answers:

1. of the variable `PERDURE_TEST_POSTGRES` (`..._MARIADB`, ...), a URL. One that does not answer is a failure;
2. of the standard port on this machine, if a client without a password may use it;
3. of a server started here where the program is installed, in a folder and on a port of its own.

`private_postgres()` and `private_redis()` always start one: for tests that kill it or change its settings. What was
started is ended when the test session ends. A program that refuses to run as root runs as its own user.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Address",
    "end",
    "mariadb",
    "nats",
    "postgres",
    "private_postgres",
    "private_redis",
    "rabbitmq",
    "redis",
    "stop",
]

PATIENCE = 0.5
"""Seconds for a probe of a port: this machine answers or refuses in less than one of a thousand."""

START = 30
"""Seconds within which a server of our own says that it is ready."""

NEEDED_IN_CI = {"postgres", "redis"}

missing: dict[str, str] = {}
"""Service -> why it is not there, for the one line at the end of the run."""


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


# -- the services --------------------------------------------------------------------------------------


def postgres() -> Address:
    """A PostgreSQL that anybody on this machine may use as its superuser."""
    return _service("postgres", STANDARD["postgres"], _answers_postgres, private_postgres)


def mariadb() -> Address:
    """A MariaDB or MySQL whose root has no password."""
    return _service("mariadb", STANDARD["mariadb"], _answers_mariadb, _start_mariadb)


def redis() -> Address:
    """A Redis or Valkey without a password."""
    return _service("redis", STANDARD["redis"], _answers_redis, private_redis)


def rabbitmq() -> Address:
    """A RabbitMQ with its guest account. None is started: it takes long, and leaves a daemon behind."""
    return _service("rabbitmq", STANDARD["rabbitmq"], _answers_rabbitmq, None)


def nats() -> Address:
    """A NATS server with JetStream."""
    return _service("nats", STANDARD["nats"], _answers_nats, _start_nats)


STANDARD = {
    "postgres": Address("postgresql", "127.0.0.1", 5432, "postgres", database="postgres"),
    "mariadb": Address("mysql", "127.0.0.1", 3306, "root", database="test"),
    "redis": Address("redis", "127.0.0.1", 6379, database="0"),
    "rabbitmq": Address("amqp", "127.0.0.1", 5672, "guest", "guest"),
    "nats": Address("nats", "127.0.0.1", 4222),
}


def _service(
    name: str, standard: Address, answers: Callable[[Address], bool], start: Callable[[], Address] | None
) -> Address:
    try:
        return _found(name, standard, answers, start)
    except LookupError as error:
        missing[name] = str(error)
        _give_up(name)


@cache
def _found(
    name: str, standard: Address, answers: Callable[[Address], bool], start: Callable[[], Address] | None
) -> Address:
    variable = f"PERDURE_TEST_{name.upper()}"
    given = os.environ.get(variable)
    if given:
        address = _parsed(given, standard)
        if not _reachable(address):
            pytest.fail(f"{variable}: nothing answers at {address.host}:{address.port}")
        return address
    if _quietly(answers, standard):
        return standard
    if start is None:
        raise LookupError(f"none on port {standard.port}")
    return start()


def _give_up(name: str) -> NoReturn:
    if os.environ.get("CI") and name in NEEDED_IN_CI:
        pytest.fail(f"no {name}: {missing[name]}; where CI is set it has to be there")
    pytest.skip(f"no {name}: {missing[name]}")


def _parsed(url: str, standard: Address) -> Address:
    parts = urlsplit(url if "//" in url else f"//{url}")
    return replace(
        standard,
        host=parts.hostname or standard.host,
        port=parts.port or standard.port,
        user=unquote(parts.username or standard.user),
        password=unquote(parts.password or standard.password),
        database=parts.path.strip("/") or standard.database,
    )


# -- who answers ---------------------------------------------------------------------------------------


def _quietly(answers: Callable[[Address], bool], address: Address) -> bool:
    with suppress(OSError, struct.error, IndexError):
        return answers(address)
    return False


def _open(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=PATIENCE)


def _reachable(address: Address) -> bool:
    def connects(address: Address) -> bool:
        with _open(address):
            return True

    return _quietly(connects, address)


def _answers_redis(address: Address) -> bool:
    with _open(address) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")


def _answers_nats(address: Address) -> bool:
    with _open(address) as connection:
        return connection.recv(64).startswith(b"INFO ")


def _answers_rabbitmq(address: Address) -> bool:
    with _open(address) as connection:
        connection.sendall(b"AMQP\x00\x00\x09\x01")
        return connection.recv(1) == b"\x01"  # a method frame: connection.start


def _answers_postgres(address: Address) -> bool:
    """Log in by hand: the answer to a start-up message says whether a password would be wanted."""
    fields = f"user\0{address.user}\0database\0{address.database}\0\0".encode()
    with _open(address) as connection:
        connection.sendall(struct.pack("!ii", len(fields) + 8, 196_608) + fields)
        answer = connection.recv(9)
        return answer[:1] == b"R" and struct.unpack("!ii", answer[1:])[1] == 0


def _answers_mariadb(address: Address) -> bool:
    """Log in by hand, without a password and without naming a database."""
    protocol_41, secure, plugin = 0x200, 0x8000, 0x80000
    login = struct.pack("<IIB23x", protocol_41 | secure | plugin, 1 << 24, 45)
    login += address.user.encode() + b"\0\0mysql_native_password\0"
    with _open(address) as connection:
        connection.recv(4096)
        connection.sendall(struct.pack("<I", len(login) | 1 << 24) + login)
        return connection.recv(5)[4] == 0


# -- servers of our own --------------------------------------------------------------------------------

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


def _start_mariadb() -> Address:
    install, server = _program("mariadb-install-db"), _program("mariadbd")
    as_user = _as_user("mysql")
    folder = _folder(owner="mysql")
    data = f"--datadir={folder / 'data'}"
    _run([*as_user, install, "--no-defaults", data, "--auth-root-authentication-method=normal"])
    port = _free_port()
    options = [data, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 's'}"]
    pid = _start([*as_user, server, "--no-defaults", *options], folder, ready="ready for connections")
    return replace(STANDARD["mariadb"], port=port, pid=pid)


def _start_nats() -> Address:
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
    _found.cache_clear()
