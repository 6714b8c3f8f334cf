"""Failures of real Redis servers, each provoked in a server of the test's own."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.faults import Fault, FaultKind, classify
from perdure.faults.kinds import Safety
from perdure.testing import no_waits
from tests.integration import private_redis
from tests.integration.private_redis import PrivateRedis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

redis = pytest.importorskip("redis")
errors = redis.exceptions

T, A, S, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT


@pytest.fixture(scope="module", autouse=True)
def _servers() -> Iterator[None]:
    yield
    private_redis.end()


@pytest.fixture(scope="module")
def server() -> PrivateRedis:
    return private_redis.start()


@pytest.fixture
def client(server: PrivateRedis) -> Iterator[Any]:
    """A client of a server that is empty and has its usual settings, before and after the test."""
    with closing(server.client()) as client:
        client.flushall()
        yield client
        client.execute_command("REPLICAOF", "NO", "ONE")
        usual = {"maxmemory": 0, "min-replicas-to-write": 0, "requirepass": "", "maxclients": 10_000}
        for name, value in usual.items():
            client.config_set(name, value)


def failure(call: Callable[[], object]) -> Exception:
    with pytest.raises((errors.RedisError, errors.RedisClusterException)) as caught:
        call()
    return caught.value


# -- answers of the server -----------------------------------------------------------------------------


def test_wrong_type_unknown_command_and_missing_script(client: Any) -> None:
    client.set("text", "x")
    assert classify(failure(lambda: client.lpush("text", 1))) == Fault(P, None, "Redis error WRONGTYPE")
    assert classify(failure(lambda: client.execute_command("NONSENSE"))).kind is P
    assert classify(failure(lambda: client.incr("text"))).kind is P
    assert classify(failure(lambda: client.evalsha("0" * 40, 0))).why.endswith("(NOSCRIPT)")
    assert classify(failure(lambda: client.evalsha("0" * 40, 0))).kind is S


def test_a_write_to_a_replica_and_a_replica_without_its_primary(client: Any) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    fault = classify(failure(lambda: client.set("a", 1)))
    assert (fault.kind, fault.why[-10:]) == (S, "(READONLY)")
    client.config_set("replica-serve-stale-data", "no")
    assert classify(failure(lambda: client.get("a"))).why.endswith("(MASTERDOWN)")
    client.config_set("replica-serve-stale-data", "yes")


def test_no_memory_and_too_few_replicas(client: Any) -> None:
    client.config_set("min-replicas-to-write", 1)
    assert classify(failure(lambda: client.set("a", 1))).why.endswith("(NOREPLICAS)")
    client.config_set("min-replicas-to-write", 0)
    client.config_set("maxmemory", 1)
    assert classify(failure(lambda: client.set("a", 1))).kind is P


def test_a_transaction_that_is_discarded_says_why(client: Any) -> None:
    client.execute_command("MULTI")
    failure(lambda: client.execute_command("NONSENSE"))
    assert (
        classify(failure(lambda: client.execute_command("EXEC"))).why == "transaction discarded (EXECABORT)"
    )


def test_a_watched_key_that_changed(client: Any) -> None:
    with client.pipeline() as transaction:
        transaction.watch("a")
        client.set("a", 1)
        transaction.multi()
        transaction.set("a", 2)
        assert classify(failure(transaction.execute)).kind is T
        assert client.get("a") == b"1"


def test_a_pipeline_fails_with_the_fault_of_its_command(client: Any) -> None:
    client.set("text", "x")
    with client.pipeline(transaction=False) as pipeline:
        pipeline.get("text").lpush("text", 1)
        assert classify(failure(pipeline.execute)) == Fault(P, None, "Redis error WRONGTYPE")


def test_a_server_whose_disk_is_full_refuses_writes(client: Any) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("no folder in which nobody can write")
    folder = client.config_get("dir")["dir"]
    client.config_set("save", "3600 1")
    client.config_set("dir", "/proc")
    try:
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        fault = classify(failure(lambda: client.set("a", 1)))
    finally:
        client.config_set("save", "")
        client.config_set("dir", folder)
    assert (fault.kind, fault.why[-9:]) == (P, "(MISCONF)")


def test_logins_that_are_missing_wrong_or_too_weak(server: PrivateRedis, client: Any) -> None:
    client.acl_setuser(
        "reader", enabled=True, passwords=["+pw"], keys=["x"], categories=["-@all"], commands=["+get"]
    )
    client.config_set("requirepass", "secret")
    for options in ({}, {"password": "wrong"}, {"password": "wrong", "protocol": 2}):
        with closing(server.client(**options)) as stranger:
            assert classify(failure(stranger.ping)).why == "Redis does not accept the credentials"
    with closing(server.client(username="reader", password="pw", protocol=2)) as reader:  # noqa: S106
        assert classify(failure(lambda: reader.set("x", 1))).why == "no permission (NOPERM)"


def test_one_client_more_than_the_server_takes(server: PrivateRedis, client: Any) -> None:
    client.config_set("maxclients", 1)
    with closing(server.client()) as stranger:
        assert classify(failure(stranger.ping)) == Fault(T, None, "Redis has too many clients")


def test_a_script_that_keeps_the_server_busy(server: PrivateRedis, client: Any) -> None:
    client.config_set("busy-reply-threshold", 1)
    with raw(server) as runner:
        runner.sendall(b'EVAL "while true do end" 0\r\n')
        with closing(server.client()) as other:
            fault = None
            while fault is None:  # until the server has begun with it
                with suppress(StopIteration):
                    fault = answer_when_busy(other)
            other.execute_command("SCRIPT", "KILL")
        runner.recv(1000)
    assert fault == Fault(T, None, "a script keeps Redis busy (BUSY)")


def answer_when_busy(client: Any) -> Fault:
    try:
        client.get("a")
    except errors.RedisError as error:
        return classify(error)
    raise StopIteration


def test_a_server_that_loads_its_data() -> None:
    """Loading is made slow, so that it can be seen."""
    server = private_redis.start("--key-load-delay", "0")
    with closing(server.client()) as client:
        client.execute_command("DEBUG", "POPULATE", "2000")
        client.config_set("key-load-delay", 150)  # microseconds per key
        client.config_set("loading-process-events-interval-bytes", 1024)
        with raw(server) as reloading:
            reloading.sendall(b"DEBUG RELOAD\r\n")
            fault = None
            while fault is None:
                with suppress(StopIteration):
                    fault = answer_when_busy(client)
            assert fault == Fault(T, None, "Redis is loading its data (LOADING)")
            reloading.settimeout(10)
            assert reloading.recv(100).startswith(b"+OK")


# -- a cluster -----------------------------------------------------------------------------------------


def test_a_cluster_node_that_serves_no_slot() -> None:
    with closing(private_redis.start("--cluster-enabled", "yes").client()) as node:
        assert classify(failure(lambda: node.get("a"))).why.endswith("(CLUSTERDOWN)")


def test_keys_that_are_elsewhere_on_the_move_or_in_several_slots() -> None:
    """Two nodes; slot 15495 (key `a`) is moving away from the first, whose slots are all but 3300 (key `b`)."""
    first, second = (private_redis.start("--cluster-enabled", "yes") for _ in range(2))
    with closing(first.client()) as one, closing(second.client()) as two:
        one.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 3299, 3301, 16383)
        two.execute_command("CLUSTER", "ADDSLOTSRANGE", 3300, 3300)
        two.execute_command("CLUSTER", "SET-CONFIG-EPOCH", 2)
        one.execute_command("CLUSTER", "MEET", "127.0.0.1", second.port)
        until(lambda: b"cluster_state:ok" in raw_answer(first, b"CLUSTER INFO\r\n"))
        until(lambda: classify(failure(lambda: one.get("b"))).why.endswith("(MOVED)"))
        assert classify(failure(lambda: one.get("b"))).kind is S
        node = raw_answer(second, b"CLUSTER MYID\r\n").split(b"\r\n")[1]
        one.execute_command("CLUSTER", "SETSLOT", 15495, "MIGRATING", node)
        assert classify(failure(lambda: one.get("a"))) == Fault(
            S, None, "the slot is moving to another node (ASK)"
        )
        one.set("{c}1", 1)
        assert classify(failure(lambda: one.mget("a", "b"))).why.endswith("(CROSSSLOT)")
        slot = int(one.execute_command("CLUSTER", "KEYSLOT", "c"))
        one.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node)
        assert classify(failure(lambda: one.mget("{c}1", "{c}2"))).why.endswith("(TRYAGAIN)")


def test_a_cluster_client_that_reaches_no_node(server: PrivateRedis) -> None:
    with refused_port() as port:
        no_node = failure(lambda: redis.RedisCluster(host="127.0.0.1", port=port))
    assert classify(no_node).kind is T
    not_one = failure(lambda: redis.RedisCluster(host="127.0.0.1", port=server.port))  # no cluster at all
    assert classify(not_one).kind is P


# -- the way to the server -----------------------------------------------------------------------------


def test_a_refused_port_and_an_unknown_host() -> None:
    with refused_port() as port:
        assert classify(failure(PrivateRedis(port).client().ping)) == Fault(T, None, "connection refused")
        assert classify(afailure(PrivateRedis(port).async_client())) == Fault(T, None, "connection refused")
    nowhere = {"host": "no number"}
    assert classify(failure(PrivateRedis(1).client(**nowhere).ping)).kind is P
    assert classify(afailure(PrivateRedis(1).async_client(**nowhere))).kind is P


def test_a_server_that_never_accepts_or_says_nothing_to_a_new_connection() -> None:
    """In both the command was not sent."""
    expected = Fault(T, None, "connecting to Redis timed out")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = PrivateRedis(silent.getsockname()[1])
        assert classify(failure(server.client(socket_timeout=0.05).ping)) == expected
        assert classify(afailure(server.async_client(socket_timeout=0.05))) == expected
    with full_backlog() as port:
        server, options = PrivateRedis(port), {"socket_connect_timeout": 0.05}
        assert classify(failure(server.client(**options).ping)) == expected
        assert classify(afailure(server.async_client(**options))) == expected


def test_a_server_that_does_not_answer_a_command(server: PrivateRedis) -> None:
    expected = Fault(A, None, "waiting for Redis timed out")

    async def run() -> Exception:
        async with server.async_client(socket_timeout=0.1) as client:
            await client.ping()
            with held(server), pytest.raises(errors.TimeoutError) as caught:
                await client.get("n")
        return caught.value

    with closing(server.client(socket_timeout=0.1)) as client:
        client.ping()
        with held(server):
            assert classify(failure(lambda: client.get("n"))) == expected
    assert classify(asyncio.run(run())) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (b"CLIENT", Fault(T, None, "Redis closed the connection during the handshake")),
        (b"INCR", Fault(A, None, "connection to Redis lost")),
    ],
)
def test_a_connection_that_is_cut(at: bytes, expected: Fault) -> None:
    with cutting_server(at) as port:
        assert classify(failure(lambda: PrivateRedis(port).client(protocol=2).incr("n"))) == expected
        assert classify(afailure(PrivateRedis(port).async_client(protocol=2))) == expected


def test_a_pool_without_a_connection_left(server: PrivateRedis) -> None:
    address = {"host": "127.0.0.1", "port": server.port, "max_connections": 1}
    for pool in (redis.ConnectionPool(**address), redis.BlockingConnectionPool(**address, timeout=0.01)):
        held = pool.get_connection()
        try:
            assert classify(failure(pool.get_connection)).why == "local: no connection left in the pool"
        finally:
            pool.release(held)
            pool.disconnect()


# -- what runs twice -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("safety", "runs"), [(Safety.UNSAFE, 1), (Safety.SAFE, 2)])
def test_a_counter_after_a_lost_answer(server: PrivateRedis, client: Any, safety: Safety, runs: int) -> None:
    """B103: the server was only slow, so the attempt that timed out counts as well."""
    with closing(server.client(socket_timeout=0.1)) as impatient, no_waits():
        impatient.ping()
        with held(server) as until_it_is_back:

            def count() -> Any:
                if perdure.current().attempt > 1:
                    until_it_is_back()
                return impatient.incr("n")

            outcome = perdure.Retry(safety=safety).outcome(count)
    assert (outcome.attempts, outcome.stop) == (runs, "unsafe" if runs == 1 else "success")
    client.ping()  # by now the server has read what was sent
    assert int(client.get("n")) == runs


@pytest.mark.parametrize(("safety", "runs"), [(Safety.UNSAFE, 1), (Safety.SAFE, 2)])
def test_a_counter_after_a_lost_answer_with_asyncio(
    server: PrivateRedis, client: Any, safety: Safety, runs: int
) -> None:
    """B103."""

    async def run() -> Any:
        async with server.async_client(socket_timeout=0.1) as impatient:
            await impatient.ping()
            with held(server) as until_it_is_back:

                async def count() -> Any:
                    if perdure.current().attempt > 1:
                        until_it_is_back()
                    return await impatient.incr("n")

                return await perdure.Retry(safety=safety).outcome(count)

    with no_waits():
        outcome = asyncio.run(run())
    assert (outcome.attempts, outcome.stop) == (runs, "unsafe" if runs == 1 else "success")
    client.ping()
    assert int(client.get("n")) == runs


def test_a_refused_connection_is_tried_again_even_for_a_counter(server: PrivateRedis, client: Any) -> None:
    """B103: nothing was sent, so nothing can have been counted."""
    policy = perdure.Retry(attempts=3, safety=Safety.UNSAFE)
    with refused_port() as port, no_waits():
        refused, arefused = PrivateRedis(port).client(), PrivateRedis(port).async_client()
        assert policy.outcome(refused.incr, "n").attempts == 3

        async def count() -> Any:
            async with arefused:
                return await policy.outcome(arefused.incr, "n")

        assert asyncio.run(count()).attempts == 3
    assert client.get("n") is None


# -- tools ---------------------------------------------------------------------------------------------


def afailure(client: Any) -> Exception:
    """What one command of an asyncio client fails with."""

    async def run() -> Exception:
        async with client:
            with pytest.raises(errors.RedisError) as caught:
                await client.incr("n")
        return caught.value

    return asyncio.run(run())


@contextmanager
def raw(server: PrivateRedis) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        yield connection


def raw_answer(server: PrivateRedis, command: bytes) -> bytes:
    with raw(server) as connection:
        connection.sendall(command)
        return connection.recv(65_536)


def until(condition: Callable[[], bool]) -> None:
    """Ask again until it holds; the time limit of the test ends what never does."""
    while not condition():
        pass


@contextmanager
def held(server: PrivateRedis) -> Iterator[Callable[[], None]]:
    """Hold the whole server for 0.3 s; what clients sent meanwhile is run afterwards.

    Gives a function that waits until it is back.
    """
    with raw(server) as holder:

        def until_it_is_back() -> None:
            assert holder.recv(100, socket.MSG_PEEK).startswith(b"+OK")

        holder.sendall(b"DEBUG SLEEP 0.3\r\n")
        until(lambda: not answers(server))
        yield until_it_is_back
        until_it_is_back()


def answers(server: PrivateRedis) -> bool:
    with raw(server) as probe:
        probe.settimeout(0.05)
        probe.sendall(b"PING\r\n")
        try:
            return probe.recv(100).startswith(b"+PONG")
        except TimeoutError:
            return False


@contextmanager
def refused_port() -> Iterator[int]:
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port on which new connections wait for ever."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.connect(("127.0.0.1", port))
        yield port
        for connection in waiting:
            connection.close()


@contextmanager
def cutting_server(at: bytes) -> Iterator[int]:
    """Agrees to every command, and resets the connection at the one that contains `at`."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    while at not in (said := connection.recv(65_536)) and said:
                        connection.sendall(b"+OK\r\n" * said.count(b"*"))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert not thread.is_alive()
