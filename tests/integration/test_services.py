"""The helper that finds or starts servers."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration import conftest, servers, services
from tests.integration.services import Address

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def unreachable() -> Iterator[Address]:
    with socket.socket() as bound:  # bound but not listening
        bound.bind(("127.0.0.1", 0))
        yield Address("redis", *bound.getsockname())


@pytest.fixture(autouse=True)
def _unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "missing", {})
    monkeypatch.delenv("CI", raising=False)
    for name in services.STANDARD:
        monkeypatch.delenv(f"PERDURE_TEST_{name.upper()}", raising=False)
    monkeypatch.setattr(services, "_found", services._found.__wrapped__)  # type: ignore[attr-defined]


def test_a_redis_of_our_own_starts_answers_and_ends() -> None:
    address = services.private_redis()
    try:
        assert services._answers_redis(address)
    finally:
        services.end(address)
    assert not services._reachable(address)


def test_a_postgres_of_our_own_starts_answers_and_ends() -> None:
    address = services.private_postgres()
    process, _, folder = servers._running[address.pid or 0]
    try:
        assert services._answers_postgres(address)
        assert (folder / "data").is_dir()
    finally:
        services.end(address)
    assert not services._reachable(address)
    assert process.returncode is not None
    assert not folder.exists()


def test_a_port_that_says_something_else_is_not_taken_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PATIENCE", 0.05)
    address = services.private_redis()
    try:
        assert services._quietly(services._answers_redis, address)
        assert not services._quietly(services._answers_nats, address)
        assert not services._quietly(services._answers_rabbitmq, address)
    finally:
        services.end(address)


def test_a_server_that_refuses_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = servers._folder()
    with pytest.raises(LookupError, match=r"^redis-server did not start: .*"):
        servers._start([servers._program("redis-server"), "--port", "none"], folder, ready="Ready")
    assert not folder.exists()


@pytest.mark.parametrize("name", ["redis", "postgres", "nats"])
@pytest.mark.parametrize("is_ci", [False, True])
def test_a_missing_service_is_a_skip_but_where_ci_needs_it_a_failure(
    name: str, is_ci: bool, unreachable: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(services.STANDARD, name, unreachable)
    monkeypatch.setattr(servers, "_program", not_installed)
    if is_ci:
        monkeypatch.setenv("CI", "true")
    needed = is_ci and name in {"redis", "postgres"}
    with pytest.raises(pytest.fail.Exception if needed else pytest.skip.Exception):
        getattr(services, name)()
    assert list(services.missing) == [name]
    assert "is not installed" in services.missing[name]


def test_what_was_missing_once_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "missing", {"nats": "gone"})
    monkeypatch.setattr(services, "_found", None)
    with pytest.raises(pytest.skip.Exception, match="no nats: gone"):
        services.nats()


def not_installed(*names: str) -> str:
    raise LookupError(f"{names[0]} is not installed")


def test_no_rabbitmq_is_started(unreachable: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(services.STANDARD, "rabbitmq", unreachable)
    with pytest.raises(pytest.skip.Exception, match="none on port"):
        services.rabbitmq()


def test_an_address_of_the_environment_is_taken_or_fails(
    unreachable: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("PERDURE_TEST_POSTGRES", f"postgresql://me:s%20cret@localhost:{port}/app")
        found = services.postgres()
    assert found == Address("postgresql", "localhost", port, "me", "s cret", "app")
    monkeypatch.setenv("PERDURE_TEST_REDIS", f"{unreachable.host}:{unreachable.port}")
    with pytest.raises(pytest.fail.Exception, match="PERDURE_TEST_REDIS: nothing answers at 127"):
        services.redis()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (Address("redis", "h", 1), "redis://h:1/"),
        (Address("mysql", "h", 1, "me", "", "db"), "mysql://me@h:1/db"),
        (Address("amqp", "h", 1, "me", "pw"), "amqp://me:pw@h:1/"),
    ],
)
def test_an_address_is_a_url(address: Address, url: str) -> None:
    assert address.url == url


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Reporter:
        def write_line(self, line: str, **markup: bool) -> None:
            lines.append(line)

    conftest.pytest_terminal_summary(Reporter())  # type: ignore[arg-type]
    monkeypatch.setattr(services, "missing", {"nats": "x", "mariadb": "y"})
    conftest.pytest_terminal_summary(Reporter())  # type: ignore[arg-type]
    assert lines == ["services not there, their tests skipped: mariadb (y); nats (x)"]


def test_a_program_that_root_may_not_run_is_run_by_its_own_user() -> None:
    prefix = servers._as_user("postgres")
    if os.geteuid() == 0:
        assert [Path(prefix[0]).name, *prefix[1:]] == [
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
        ]
    else:
        assert prefix == []
