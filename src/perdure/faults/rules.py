"""The classifier: verdicts, then the user's rules, then the tables, then what lies under the exception.

A class is resolved once into a plan, the steps to ask in order; a plan that starts with a fixed answer
is one dictionary lookup from then on. Tables name classes by module and qualified name, so no library
is imported to recognise its exceptions, and a table is loaded when a class of its package first fails.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from perdure.faults.chain import is_group, links
from perdure.faults.custom import Registered, checked_target, name_of, step_of
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.posix import bare_connection_error, by_errno
from perdure.faults.verdict import KEY, verdict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perdure.faults.custom import Rule, Step

__all__ = ["TABLES", "classify", "fault_held", "known_fault", "register", "reset"]

TABLES: dict[str, str] = {
    "MySQLdb": "mysql",
    "_queue": "builtin",
    "aio_pika": "amqp",
    "aiohttp": "aiohttp",
    "aiokafka": "kafka",
    "aiormq": "amqp",
    "aiosmtplib": "smtp",
    "amqp": "amqp",
    "anthropic": "llm",
    "asyncio": "builtin",
    "asyncmy": "mysql",
    "asyncpg": "postgres",
    "azure": "azure",
    "boto3": "aws",
    "botocore": "aws",
    "builtins": "builtin",
    "cimpl": "kafka",
    "concurrent": "builtin",
    "confluent_kafka": "kafka",
    "dns": "dns",
    "google": "google",
    "grpc": "grpc",
    "http": "http",
    "httpcore": "httpx",
    "httpcore2": "httpx",
    "httpx": "httpx",
    "httpx2": "httpx",
    "json": "builtin",
    "kafka": "kafka",
    "kombu": "amqp",
    "litellm": "llm",
    "mariadb": "mysql",
    "mcp": "mcp",
    "mysql": "mysql",
    "niquests": "requests",
    "ollama": "llm",
    "openai": "llm",
    "perdure": "builtin",
    "pika": "amqp",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "psycopg_pool": "postgres",
    "pymongo": "mongo",
    "pymysql": "mysql",
    "pyodbc": "odbc",
    "queue": "builtin",
    "redis": "redis",
    "requests": "requests",
    "s3transfer": "aws",
    "smtplib": "smtp",
    "socket": "network",
    "sqlalchemy": "sqlalchemy",
    "sqlite3": "sqlite",
    "ssl": "network",
    "subprocess": "process",
    "urllib": "http",
    "urllib3": "urllib3",
    "urllib3_future": "urllib3",
    "valkey": "redis",
    "websockets": "websockets",
}
"""Top-level package of an exception class -> the module here that knows the package.

A table module has `RULES`: "module.QualName" -> fault or function, valid for subclasses too. It may have
`EXACT`: the same, for the class itself only; and `DENY`: names whose answer beats those of other bases."""

UNKNOWN = Fault(FaultKind.PERMANENT, None, "unknown exception type")
BARE_OSERROR = Fault(
    FaultKind.PERMANENT,
    None,
    "OSError without errno",
)
UNDECIDED = frozenset({UNKNOWN.why, BARE_OSERROR.why})
"""What is permanent for want of knowing better: users are told how to have it retried."""

NOT_A_FAILURE = Fault(FaultKind.PERMANENT, None, "neither an exception nor a response")
LEAVING = Fault(FaultKind.NEUTRAL, None, "cancelled or shutting down")

BY_NUMBER = (bare_connection_error, by_errno)
"""The rules whose answer depends on the errno alone."""

PLANS = 2_000
"""Bound of the cache: more classes than this are made at run time, and forgotten together."""

_lock = allocate_lock()
_registered: tuple[Registered, ...] = ()  # newest first; replaced, never changed
_plans: dict[type, tuple[Step, ...]] = {}
_constant: dict[type, Fault] = {}  # the plans that begin with a fixed answer
_numbered: dict[tuple[type, int | None], Fault] = {}  # OSErrors by errno, where that is all that counts

_loaded: set[str] = set()
_known: dict[str, Step] = {}
_exact: dict[str, Step] = {}
_deny: set[str] = set()
_bugs: set[Step] = set()


def classify(obj: object) -> Fault:
    """Say what a failure is: `obj` is an exception, or a response with a status and headers.

    Asked in this order: the verdict on the exception or its explicit causes; registered rules; the
    tables; a status, SQLSTATE or errno that the exception carries; what lies under it. What stays
    unknown is permanent. Never raises. Safe from any thread or task.
    """
    try:
        unmarked = getattr(obj, KEY, None) is None and getattr(obj, "__cause__", None) is None
    except Exception:  # noqa: BLE001 - a class may answer for attributes it lacks with any error
        unmarked = False
    try:
        if unmarked and (fault := _constant.get(type(obj))) is not None:
            return fault
        if isinstance(obj, BaseException):
            verdict = None if unmarked else verdict_of(obj)
            return verdict or _ruled(obj) or _fault_below(obj, groups=True) or _unknown(obj)
        from perdure.faults.duck import fault_of_response

        return fault_of_response(obj) or NOT_A_FAILURE
    except Exception as error:  # noqa: BLE001 - a classifier that raises would hide the failure it was asked about
        return Fault(FaultKind.PERMANENT, None, f"reading it raised {type(error).__qualname__}")


def classify_unmarked(exc: BaseException) -> Fault:
    """`classify` for an exception that has an empty `__dict__` and no cause: it cannot bear a verdict."""
    fault = _constant.get(type(exc))
    if fault is None and isinstance(exc, OSError):
        try:
            fault = _numbered.get((type(exc), exc.errno)) or _by_number(exc)
        except Exception:  # noqa: BLE001 - a class may refuse to be read
            return classify(exc)
    return fault or classify(exc)


def _by_number(exc: OSError) -> Fault | None:
    """Classify by a rule that looks at nothing but the errno, and remember; None where the rule is another."""
    cls, numbered = type(exc), _numbered
    plan = _plans.get(cls) or _plan(cls)
    if plan[0] not in BY_NUMBER or not isinstance(exc.errno, (int, type(None))):
        return None
    fault = classify(exc)
    if len(numbered) >= PLANS:
        numbered.clear()
    numbered[cls, exc.errno] = fault
    return fault


def known_fault(exc: BaseException) -> Fault | None:
    """Give what is known of `exc` itself: verdict, rules, tables, evidence on the object. May raise."""
    return verdict_of(exc) or _ruled(exc)


def fault_held(exc: BaseException, held: object) -> Fault | None:
    """Classify what a wrapper `exc` holds in an attribute; None when that is no exception, or `exc` itself."""
    return known_fault(held) if isinstance(held, BaseException) and held is not exc else None


def fault_of_leaf(exc: BaseException) -> Fault:
    """Classify a member of a group.

    No group under it is opened: `raise group.exceptions[0]` puts the group under its own member.
    """
    return known_fault(exc) or _fault_below(exc, groups=False) or _unknown(exc)


def _ruled(exc: BaseException) -> Fault | None:
    for step in _plans.get(type(exc)) or _plan(type(exc)):
        fault = step if isinstance(step, Fault) else step(exc)
        if fault is not None:
            return fault
    return None


def register(target: type[BaseException] | str, rule: Rule) -> Callable[[], None]:
    """Teach the classifier a class: `register("billing.Locked", FaultKind.TRANSIENT)`.

    `target` is an exception class or "module.QualName", and covers subclasses. `rule` is a `FaultKind`, a
    `Fault`, or a function of the exception that returns one of these, or None for "not mine, go on".
    Rules outrank the tables; the most specific class is asked first, then the newest rule. A function that
    raises or returns something else is reported once as a RuntimeWarning and passed over.

    Returns a function that removes the rule. Safe from any thread or task.

    Raises:
        ConfigError: `target` or `rule` is none of these, or the function is a coroutine function.
    """
    entry = Registered(checked_target(target), step_of(target, rule))

    def remove() -> None:
        _replace(lambda entries: tuple(kept for kept in entries if kept is not entry))

    _replace(lambda entries: (entry, *entries))
    return remove


def reset() -> None:
    """Forget every registered rule: the shipped tables are what remains. Safe from any thread."""
    _replace(lambda _: ())


def registered() -> tuple[Registered, ...]:
    """The registered rules, for `restore`. Safe from any thread."""
    return _registered


def restore(entries: tuple[Registered, ...]) -> None:
    """Put back the rules of an earlier moment (for tests). Safe from any thread."""
    _replace(lambda _: entries)


def _replace(change: Callable[[tuple[Registered, ...]], tuple[Registered, ...]]) -> None:
    global _registered, _plans, _constant, _numbered  # noqa: PLW0603 - one classifier per process, replaced as a whole
    with _lock:
        _registered = change(_registered)
        # New dicts instead of clear(): a plan now being made from the old rules lands in a dropped dict.
        _plans, _constant, _numbered = {}, {}, {}


def _plan(cls: type[BaseException]) -> tuple[Step, ...]:
    plans, constant = _plans, _constant  # before the rules are read: see _replace
    plan = tuple(_until_fixed(_steps(cls)))
    if len(plans) >= PLANS:
        plans.clear()
        constant.clear()
    plans[cls] = plan
    if isinstance(plan[0], Fault):
        constant[cls] = plan[0]
    return plan


def _until_fixed(steps: Iterator[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Fault):
            return


def _steps(cls: type[BaseException]) -> Iterator[Step]:
    entries = _registered
    for base in cls.__mro__:
        yield from (entry.step for entry in entries if entry.covers(base))
    if issubclass(cls, Exception):
        yield from _table_steps(cls)
    else:
        yield LEAVING


def _table_steps(cls: type[BaseException]) -> Iterable[Step]:
    for base in cls.__mro__:
        _load(_package(base))
    name = name_of(cls)
    return (_exact[name],) if name in _exact else _inherited_steps(cls, name)


def _inherited_steps(cls: type[BaseException], name: str) -> Iterator[Step]:
    hits = [(base, name_of(base)) for base in cls.__mro__ if name_of(base) in _known]
    from perdure.faults.duck import evidence

    # A class of its own that a user derived shows what it is; a new one of a library we know goes by its base, as
    # a code that is no status or errno could be taken for one.
    of_library = hits and (cls.__module__ == "builtins" or _package(cls) == _package(hits[0][0]))
    if name not in _known and not of_library:
        yield evidence
    # Deny before allow: an io.UnsupportedOperation is an OSError, but it is a ValueError as well.
    yield from (_known[wide] for base, wide in hits if wide in _deny and not issubclass(hits[0][0], base))
    yield from (_known[hit] for _, hit in hits)
    if name not in _known and of_library:
        yield evidence


def _package(cls: type) -> str:
    return str(cls.__module__).partition(".")[0]


def _load(package: str) -> None:
    table = TABLES.get(package)
    if table is None or table in _loaded:
        return
    from importlib import import_module

    module = import_module(f"perdure.faults.{table}")
    exact: dict[str, Step] = getattr(module, "EXACT", {})
    deny: frozenset[str] = getattr(module, "DENY", frozenset())
    _known.update(module.RULES)
    _exact.update(exact)
    _deny.update(deny)
    _bugs.update(exact.get(name) or module.RULES[name] for name in deny)
    _loaded.add(table)  # last: another thread that sees the mark sees the rows


def _fault_below(exc: BaseException, *, groups: bool) -> Fault | None:
    for link, explicit in links(exc):
        if link is not exc and (groups or not is_group(link)):
            fault = _taken(link, explicit)
            if fault is not None:
                return fault
    return None


def _taken(link: BaseException, explicit: bool) -> Fault | None:  # noqa: FBT001
    """What a link of the chain says about the exception above it.

    In an implicit context neither a cancellation (timeouts are made of them) nor a bug type
    (`except KeyError:` leaves one) says anything.
    """
    fault = known_fault(link)
    if explicit or fault is None:
        return fault
    return None if fault.kind is FaultKind.NEUTRAL or fault in _bugs else fault


def _unknown(exc: BaseException) -> Fault:
    return BARE_OSERROR if isinstance(exc, OSError) else UNKNOWN


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
