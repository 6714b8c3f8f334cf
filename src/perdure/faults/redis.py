"""Redis and Valkey by error prefix: exceptions of `redis` and `valkey`, which share their class names."""

from __future__ import annotations

from perdure.faults.chain import chain
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.network import functions_of
from perdure.faults.rules import known_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _is(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


# The server looked at the command and did not run it.
_REFUSED = {
    "LOADING": "Redis is loading its data (LOADING)",
    "BUSY": "a script keeps Redis busy (BUSY)",
    "TRYAGAIN": "keys are moving between nodes (TRYAGAIN)",
    "CLUSTERDOWN": "the cluster does not serve this slot now (CLUSTERDOWN)",
    "MASTERDOWN": "the replica has lost its primary (MASTERDOWN)",
    "NOREPLICAS": "too few replicas to accept writes (NOREPLICAS)",
    "INPROG": "a failover is in progress (INPROG)",
    "NOMASTERLINK": "the replica has lost its primary (NOMASTERLINK)",
}
_ELSEWHERE = {
    "MOVED": "the slot lives on another node (MOVED)",
    "ASK": "the slot is moving to another node (ASK)",
    "READONLY": "connected to a replica: connect to the primary (READONLY)",
    "NOSCRIPT": "script not loaded: send it with EVAL (NOSCRIPT)",
    "UNBLOCKED": "the node changed its role while the command waited (UNBLOCKED)",
}
_PREFIXES = {
    **{prefix: _is(FaultKind.TRANSIENT, why) for prefix, why in _REFUSED.items()},
    **{prefix: _is(FaultKind.STALE, why) for prefix, why in _ELSEWHERE.items()},
    "OOM": _is(FaultKind.PERMANENT, "Redis is at its memory limit (OOM)"),
    "MISCONF": _is(FaultKind.PERMANENT, "Redis cannot save to disk and refuses writes (MISCONF)"),
    "IOERR": _is(FaultKind.AMBIGUOUS, "MIGRATE lost the other node (IOERR)"),
}
_TOO_MANY = _is(FaultKind.TRANSIENT, "Redis has too many clients")
_DISCARDED = "because of: "  # EXECABORT Transaction discarded because of: LOADING ...
_IN_PIPELINE = "of pipeline caused error: "


def _response_error(exc: Any) -> Fault:
    """By the prefix that the server put first; a pipeline and EXEC put their own words before it."""
    text = str(exc).rpartition(_IN_PIPELINE)[2].rpartition(_DISCARDED)[2]
    if "max number of clients reached" in text:
        return _TOO_MANY
    prefix = text.split(" ", 1)[0]
    if prefix in _PREFIXES:
        return _PREFIXES[prefix]
    return _is(FaultKind.PERMANENT, f"Redis error {prefix}" if prefix.isupper() else "Redis error")


_ABORTED = _is(FaultKind.PERMANENT, "transaction discarded (EXECABORT)")


def _exec_abort(exc: Any) -> Fault:
    """As what discarded the transaction, where the server says it."""
    fault = _response_error(exc)
    return fault if fault in _PREFIXES.values() else _ABORTED


_CONNECTING = "onnecting to "  # "Error 111 connecting to host", "Timeout connecting to server"
_LOST = _is(FaultKind.AMBIGUOUS, "connection to Redis lost")
_NOT_CONNECTED = _is(FaultKind.TRANSIENT, "cannot connect to Redis")
_POOL_EMPTY = _is(FaultKind.TRANSIENT, "local: no connection left in the pool")
_DEMOTED = _is(FaultKind.TRANSIENT, "the previous primary is now a replica")
_BY_TEXT = {
    "max number of clients reached": _TOO_MANY,
    "No connection available": _POOL_EMPTY,
    "Too many connections": _POOL_EMPTY,
    "The previous master is now a slave": _DEMOTED,
}


def _connection_error(exc: Any) -> Fault:
    """Refused while connecting: by what lies under it, and nothing was sent. In use: an answer may be lost."""
    text = str(exc)
    for words, fault in _BY_TEXT.items():
        if words in text:
            return fault
    if exc.args and isinstance(
        exc.args[0], Exception
    ):  # what the async client did not expect while connecting
        return _unsent(exc)
    if _CONNECTING in text:
        return _unsent(exc)
    return _HANDSHAKE_CUT if _in_handshake(exc) else _LOST


def _in_handshake(exc: BaseException) -> bool:
    """Whether a new connection was still introducing itself: the command had not been sent."""
    return not _HANDSHAKE.isdisjoint(functions_of(exc, "connection.py"))


_HANDSHAKE = frozenset({"on_connect", "on_connect_check_health"})
_HANDSHAKE_CUT = _is(FaultKind.TRANSIENT, "Redis closed the connection during the handshake")


def _unsent(exc: BaseException) -> Fault:
    below = next((fault for link in chain(exc) if link is not exc and (fault := known_fault(link))), None)
    if below is None or below.kind not in (FaultKind.TRANSIENT, FaultKind.PERMANENT):
        return _NOT_CONNECTED
    return below


_CONNECT_TIMEOUT = _is(FaultKind.TRANSIENT, "connecting to Redis timed out")
_TIMEOUT = _is(FaultKind.AMBIGUOUS, "waiting for Redis timed out")


def _timeout_error(exc: Any) -> Fault:
    return _CONNECT_TIMEOUT if _CONNECTING in str(exc) or _in_handshake(exc) else _TIMEOUT


_LOCK_HELD = _is(FaultKind.NEUTRAL, "lock held by another")
_LOCK_MISUSED = _is(FaultKind.PERMANENT, "local: lock not owned")


def _lock_error(exc: Any) -> Fault:
    return _LOCK_HELD if "Unable to acquire" in str(exc) else _LOCK_MISUSED


_NO_NODE = _is(FaultKind.TRANSIENT, "the cluster has no node that answers")
_CLUSTER_MISUSED = _is(FaultKind.PERMANENT, "local: not possible on a cluster")


def _cluster_exception(exc: Any) -> Fault:
    """Most are misuse; the client also raises it when no start-up node answers, or not for every slot."""
    text = str(exc)
    if "cannot be connected" not in text and "slots are not" not in text:
        return _CLUSTER_MISUSED
    return _NO_NODE if exc.__cause__ is None else _unsent(exc)


_DENIED = _is(FaultKind.PERMANENT, "Redis does not accept the credentials")
_NO_PRIMARY = _is(FaultKind.TRANSIENT, "Sentinel knows no such node now")
_NO_DATABASE = _is(FaultKind.TRANSIENT, "no healthy database")

_CLASSES: dict[str, Step] = {
    "ConnectionError": _connection_error,
    "MaxConnectionsError": _POOL_EMPTY,
    "BusyLoadingError": _PREFIXES["LOADING"],
    "AuthenticationError": _DENIED,
    "AuthorizationError": _DENIED,
    # An authentication service behind Redis, such as LDAP, has a problem of its own: nothing was run.
    "ExternalAuthProviderError": _is(FaultKind.TRANSIENT, "authentication service has a problem"),
    "TimeoutError": _timeout_error,
    "InvalidResponse": _is(FaultKind.AMBIGUOUS, "garbage instead of an answer"),
    "ResponseError": _response_error,
    "AuthenticationWrongNumberOfArgsError": _DENIED,
    "NoPermissionError": _is(FaultKind.PERMANENT, "no permission (NOPERM)"),
    "ModuleError": _is(FaultKind.PERMANENT, "Redis module error"),
    "NoSuchFieldsetError": _is(FaultKind.STALE, "fieldset not prepared on this connection"),
    "ReadOnlyError": _PREFIXES["READONLY"],
    "NoScriptError": _PREFIXES["NOSCRIPT"],
    "OutOfMemoryError": _PREFIXES["OOM"],
    "ExecAbortError": _exec_abort,
    "AskError": _PREFIXES["ASK"],
    "MovedError": _PREFIXES["MOVED"],
    "TryAgainError": _PREFIXES["TRYAGAIN"],
    "ClusterDownError": _PREFIXES["CLUSTERDOWN"],
    "MasterDownError": _PREFIXES["MASTERDOWN"],
    "ClusterCrossSlotError": _is(FaultKind.PERMANENT, "keys in different slots (CROSSSLOT)"),
    "ClusterError": _is(FaultKind.TRANSIENT, "the cluster kept redirecting"),
    "SlotNotCoveredError": _PREFIXES["CLUSTERDOWN"],
    "CrossSlotTransactionError": _is(FaultKind.PERMANENT, "local: keys in different slots"),
    "InvalidPipelineStack": _is(FaultKind.AMBIGUOUS, "pipeline out of step"),
    "RedisClusterException": _cluster_exception,
    "ValkeyClusterException": _cluster_exception,
    "WatchError": _is(FaultKind.TRANSIENT, "a watched key changed: run the whole transaction again"),
    "LockError": _lock_error,
    "LockNotOwnedError": _LOCK_MISUSED,
    "DataError": _is(FaultKind.PERMANENT, "local: value that Redis cannot store"),
    "PubSubError": _is(FaultKind.PERMANENT, "local: misuse of publish/subscribe"),
    "ChildDeadlockedError": _is(FaultKind.PERMANENT, "local: deadlock after a fork"),
    "IncorrectPolicyType": _is(FaultKind.PERMANENT, "local: unknown policy type"),
    "RedisError": _is(FaultKind.PERMANENT, "Redis error"),
    "ValkeyError": _is(FaultKind.PERMANENT, "Valkey error"),
}

RULES: dict[str, Step] = {
    f"{package}.exceptions.{name}": step for package in ("redis", "valkey") for name, step in _CLASSES.items()
}
RULES.update(
    {
        f"{package}.{module}.{name}": _NO_PRIMARY
        for package in ("redis", "valkey")
        for module in ("sentinel", "asyncio.sentinel")
        for name in ("MasterNotFoundError", "SlaveNotFoundError")
    }
)
RULES.update(
    {
        f"redis.multidb.exception.{name}": _NO_DATABASE
        for name in (
            "NoValidDatabaseException",
            "UnhealthyDatabaseException",
            "TemporaryUnavailableException",
        )
    }
)
