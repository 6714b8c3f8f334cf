"""Redis and Valkey by class and by prefix; against real servers in tests/integration/test_redis.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify

redis = pytest.importorskip("redis")
errors = redis.exceptions

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
S, P, N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL


def parsed(line: str) -> Exception:
    """What the client makes of an error line of the server."""
    from redis._parsers.base import BaseParser

    error: Exception = BaseParser.parse_error(line)
    return error


LINES = [
    ("LOADING Redis is loading the dataset in memory", T),
    ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", T),
    ("TRYAGAIN Multiple keys request during rehashing of slot", T),
    ("CLUSTERDOWN The cluster is down", T),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", T),
    ("NOREPLICAS Not enough good replicas to write.", T),
    ("INPROG Failover already in progress", T),
    ("NOMASTERLINK Can't SYNC while not connected with my master", T),
    ("ERR max number of clients reached", T),
    ("MOVED 3999 127.0.0.1:6381", S),
    ("ASK 3999 127.0.0.1:6381", S),
    ("READONLY You can't write against a read only replica.", S),
    ("NOSCRIPT No matching script. Please use EVAL.", S),
    ("UNBLOCKED client unblocked via CLIENT UNBLOCK", S),
    ("IOERR error or timeout reading to target instance", A),
    ("OOM command not allowed when used memory > 'maxmemory'.", P),
    ("MISCONF Redis is configured to save RDB snapshots", P),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", P),
    ("ERR value is not an integer or out of range", P),
    ("NOAUTH Authentication required.", P),
    ("WRONGPASS invalid username-password pair or user is disabled.", P),
    ("NOPERM this user has no permissions to run the 'set' command", P),
    ("CROSSSLOT Keys in request don't hash to the same slot", P),
    ("BUSYGROUP Consumer Group name already exists", P),
    ("BUSYKEY Target key name already exists.", P),
    ("NOPROTO unsupported protocol version", P),
    ("EXECABORT Transaction discarded because of previous errors.", P),
    ("EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset in memory", T),
    ("EXECABORT Transaction discarded because of: OOM command not allowed", P),
]


@pytest.mark.parametrize(("line", "kind"), LINES, ids=lambda value: str(value).split(" ", 1)[0])
def test_a_prefix_decides_whatever_class_the_client_gives_it(line: str, kind: FaultKind) -> None:
    assert classify(parsed(line)).kind is kind
    # An older client knows fewer prefixes, and keeps them in the text.
    assert classify(errors.ResponseError(line)).kind is (P if line.startswith("ERR ") and kind is P else kind)


def test_a_pipeline_puts_its_own_words_before_the_prefix() -> None:
    text = "Command # 2 (SET a 1) of pipeline caused error: BUSY Redis is busy running a script."
    assert classify(errors.ResponseError(text)).kind is T
    text = "Command # 1 (SET a of pipeline caused error: BUSY) of pipeline caused error: WRONGTYPE x"
    assert classify(errors.ResponseError(text)) == Fault(P, None, "Redis error WRONGTYPE")


@given(st.text())
def test_any_text_of_the_server_has_an_answer(text: str) -> None:
    assert isinstance(classify(errors.ResponseError(text)), Fault)


CLASSES = [
    (errors.MaxConnectionsError("Too many connections"), T),
    (errors.ConnectionError("Too many connections"), T),  # before it had a class of its own
    (errors.ConnectionError("No connection available."), T),
    (errors.ConnectionError("max number of clients reached"), T),
    (errors.ConnectionError("The previous master is now a slave"), T),
    (errors.ConnectionError("Connection closed by server."), A),
    (errors.ConnectionError("Error while reading from 127.0.0.1:6379 : (104, 'reset')"), A),
    (errors.ConnectionError("Error 32 while writing to socket. Broken pipe."), A),
    (errors.ConnectionError("Error 111 connecting to 127.0.0.1:1. Connection refused."), T),
    (errors.TimeoutError("Timeout connecting to server"), T),
    (errors.TimeoutError("Timeout reading from socket"), A),
    (errors.TimeoutError("Timeout writing to socket"), A),
    (errors.AuthenticationError("invalid password"), P),
    (errors.AuthorizationError("x"), P),
    (errors.AuthenticationWrongNumberOfArgsError("x"), P),
    (errors.InvalidResponse("x"), A),
    (errors.WatchError("Watched variable changed."), T),
    (errors.LockError("Unable to acquire lock within the time specified"), N),
    (errors.LockError("Cannot release an unlocked lock"), P),
    (errors.LockNotOwnedError("x"), P),
    (errors.DataError("x"), P),
    (errors.PubSubError("x"), P),
    (errors.ModuleError("x"), P),
    (errors.ClusterError("TTL exhausted."), T),
    (errors.SlotNotCoveredError('Slot "1" is not covered by the cluster.'), T),
    (errors.RedisClusterException("Redis Cluster cannot be connected. Please provide at least one"), T),
    (errors.RedisClusterException("All slots are not covered after query all startup_nodes."), T),
    (errors.RedisClusterException("MSET - all keys must map to the same key slot"), P),
    (errors.CrossSlotTransactionError("x"), P),
    (errors.InvalidPipelineStack("x"), A),
    (errors.RedisError("x"), P),
]


@pytest.mark.parametrize(("exc", "kind"), CLASSES, ids=lambda value: f"{type(value).__name__}-{value}")
def test_a_class_of_the_client(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind
    assert classify(exc).why


@pytest.mark.parametrize("name", ["ExternalAuthProviderError", "NoSuchFieldsetError"])
def test_newer_classes_where_the_client_has_them(name: str) -> None:
    cls = getattr(errors, name, None)
    if cls is None:
        pytest.skip(f"this redis has no {name}")
    assert classify(cls("x")).kind is {"ExternalAuthProviderError": T, "NoSuchFieldsetError": S}[name]


def test_every_class_of_the_client_is_known() -> None:
    for module in (errors, pytest.importorskip("redis.sentinel")):
        for name, cls in vars(module).items():
            if isinstance(cls, type) and issubclass(cls, Exception):
                from perdure.faults.redis import RULES

                assert f"{cls.__module__}.{cls.__qualname__}" in RULES, name


def test_a_timeout_counts_as_congestion() -> None:
    """B033: redis.TimeoutError is not the builtin one."""
    from perdure.faults.signal import Signal, signal_of

    for text in ("Timeout reading from socket", "Timeout connecting to server"):
        exc = errors.TimeoutError(text)
        assert not isinstance(exc, TimeoutError)
        assert signal_of(exc, classify(exc), wanted=False) is Signal.OVERLOAD


def test_a_pool_of_this_process_says_nothing_about_redis() -> None:
    from perdure.faults.signal import Signal, signal_of

    for exc in (errors.MaxConnectionsError("Too many connections"), errors.DataError("x")):
        assert signal_of(exc, classify(exc), wanted=False) is Signal.NEUTRAL


def test_what_lies_under_a_failed_connect_decides_between_later_and_never() -> None:
    import socket
    import ssl

    def connect(below: Exception) -> Exception:
        with pytest.raises(errors.ConnectionError) as caught:
            try:
                raise below
            except OSError as error:
                raise errors.ConnectionError(f"Error connecting to h:1. {error}")  # noqa: B904 - as the client does
        return caught.value

    assert classify(connect(ConnectionRefusedError(111, "refused"))) == Fault(T, None, "connection refused")
    assert classify(connect(ConnectionResetError(104, "reset"))).kind is T  # nothing was sent yet
    assert classify(connect(socket.gaierror(socket.EAI_NONAME, "unknown"))).kind is P
    assert classify(connect(socket.gaierror(socket.EAI_AGAIN, "later"))).kind is T
    assert classify(connect(ssl.SSLCertVerificationError(1, "expired"))).kind is P


def test_an_answer_that_was_cut_is_lost_even_where_its_cause_is_named() -> None:
    """The async client names the cause of both; only one of them came while connecting."""
    reset = ConnectionResetError(104, "reset")
    cut = errors.ConnectionError("Connection closed by server.")
    unexpected = errors.ConnectionError(reset)
    cut.__cause__ = unexpected.__cause__ = reset
    assert classify(cut).kind is A
    assert classify(unexpected).kind is T


def test_sentinel_that_knows_no_primary() -> None:
    sentinel = pytest.importorskip("redis.sentinel")
    assert classify(sentinel.MasterNotFoundError("x")).kind is T
    assert classify(sentinel.SlaveNotFoundError("x")).kind is T


def test_valkey_has_the_same_table() -> None:
    valkey: Any = pytest.importorskip("valkey.exceptions")
    assert classify(valkey.BusyLoadingError("x")).kind is T
    assert classify(valkey.ReadOnlyError("x")).kind is S
    assert classify(valkey.AuthenticationError("x")).kind is P
    assert classify(valkey.TimeoutError("Timeout reading from socket")).kind is A
