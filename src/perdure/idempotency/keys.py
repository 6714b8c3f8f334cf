"""Idempotency keys for the requests of a client: drawn once for each logical call."""

from __future__ import annotations

from typing import NamedTuple

from perdure.checks import check_callable, check_flag, check_seconds, refuse
from perdure.faults.headers import read
from perdure.idempotency.claim import Claim, Sent
from perdure.idempotency.derive import derive
from perdure.idempotency.errors import KeyMissing
from perdure.idempotency.holders import Hold
from perdure.idempotency.ledger import Ask
from perdure.idempotency.memory_store import MemoryStore
from perdure.idempotency.offload import in_thread
from perdure.idempotency.payload import fingerprint, key_in, with_key
from perdure.idempotency.profiles import PROFILES, Hosts, Profile
from perdure.idempotency.syntax import read_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeGuard
    from uuid import UUID

    from perdure.idempotency.claim import Store
    from perdure.idempotency.client_store import ClientStore
    from perdure.idempotency.ledger import Row

__all__ = ["Keys"]

_LONGEST_OPERATION = 255


class _Request(NamedTuple):
    method: str
    host: str
    content_type: str
    headers: object
    body: bytes | None


class Keys:
    """Gives each logical call of an HTTP client one idempotency key.

    ``profile`` says what the servers want: a name in ``PROFILES`` (default ``"ietf"``), a Profile, or a mapping of
    hosts to these (``"api.stripe.com"``, ``"*.example.com"``, ``"*"``). ``methods`` get keys (default POST and
    PATCH). ``make`` draws a key (default: UUID version 4). ``store`` is a ClientStore that keeps them over a crash;
    without one, the last 10,000 are remembered in memory.

    ``retention`` is for how many seconds the servers remember a key (default: what the profile says, a day for most
    of them). ``margin`` seconds (default 3600) before that, an unfinished key is not sent any more. Calls in
    ``methods`` to hosts without a profile are refused, unless they have a key or ``allow_unsafe`` is true.

    Raises ConfigError for values that cannot be. Safe from any thread or task.
    """

    __slots__ = ("_hosts", "_make", "_store", "allow_unsafe", "margin", "methods", "retention")

    @staticmethod
    def derive(*parts: str | int | UUID, namespace: str, secret: bytes | None = None) -> str:
        """See ``perdure.idempotency.derive``."""
        return derive(*parts, namespace=namespace, secret=secret)

    def __init__(
        self,
        profile: str | Profile | Mapping[str, str | Profile] = "ietf",
        *,
        methods: Iterable[str] = ("POST", "PATCH"),
        make: Callable[[], str] | None = None,
        store: ClientStore | None = None,
        retention: float | None = None,
        margin: float = 3600.0,
        allow_unsafe: bool = False,
    ) -> None:
        self._hosts = Hosts(profile)
        self.methods: frozenset[str] = _methods(methods)
        if make is not None:
            check_callable("make", make)
        self._make = make
        if store is not None and not hasattr(store, "take"):
            raise refuse("store", "must be a ClientStore or None", store)
        self._store: Store = MemoryStore() if store is None else store
        check_seconds("retention", retention, above=0, optional=True)
        check_seconds("margin", margin)
        self.retention: float | None = retention
        self.margin: float = float(margin)
        for one in self._hosts.all():
            if (kept := self._kept_by(one)) is not None and kept <= self.margin:
                raise refuse("margin", f"must be below the retention of {kept:g} s ({one.name})", margin)
        check_flag("allow_unsafe", allow_unsafe)
        self.allow_unsafe: bool = allow_unsafe

    def claim(
        self,
        method: str,
        url: object,
        headers: object = None,
        body: bytes | None = None,
        *,
        key: str | None = None,
        operation: str | None = None,
    ) -> Claim | None:
        """Claim the key of one logical call, once, before its first attempt; None where none applies.

        The key is the one in the request, ``key``, the one that ``operation`` (a business identity, "order-17") was
        given before, or a new one. With a store it is on the disk when this returns. ``headers`` is a mapping or
        pairs; ``body`` None means no body, or one that is streamed, which is not compared.

        Raises KeyMissing, KeyReused, InProgress, OutcomeUnknown and AlreadyDone where the request must not be sent,
        StoreUnavailable where the store fails, and ConfigError for a key, operation or body that cannot be used.
        Does a few milliseconds of disk work with a store. Safe from any thread or task.
        """
        request = _request(method, url, headers, body)
        if request.method not in self.methods:
            return None
        profile = self._hosts.profile_of(request.host)
        carried = _carried(request, profile, key)
        if profile is None and carried is None and key is None:
            if self.allow_unsafe:
                return None
            raise KeyMissing(None, operation, request.host)
        return self._claim(request, profile or _carried_profile(request), carried, key, operation)

    async def aclaim(
        self,
        method: str,
        url: object,
        headers: object = None,
        body: bytes | None = None,
        *,
        key: str | None = None,
        operation: str | None = None,
    ) -> Claim | None:
        """As ``claim``, for async code: with a store the work is done in a thread, on asyncio and trio."""

        def work() -> Claim | None:
            return self.claim(method, url, headers, body, key=key, operation=operation)

        if not self._store.is_durable:
            return work()
        return await in_thread(work, lambda claim: claim and claim.failed())

    def _claim(
        self, request: _Request, profile: Profile, carried: str | None, key: str | None, operation: str | None
    ) -> Claim:
        given = carried if key is None else key
        wanted = self._new(profile) if given is None else profile.check(given)
        kept = self._kept_by(profile)
        ask = Ask(
            host=request.host,
            key=wanted,
            operation=None if operation is None else _operation(operation),
            print=fingerprint(request.method, request.content_type, request.body),
            given=given is not None,
            limit=None if kept is None else kept - self.margin,
        )
        hold = Hold()
        row, resumed = self._store.take(ask, hold)
        profile.check(row.key)
        sent = _sent(request, profile, row, carried=carried is not None)
        return Claim(self._store, hold, row, sent, resumed=resumed)

    def _new(self, profile: Profile) -> str:
        if self._make is not None:
            return profile.check(self._make(), "make()")
        from uuid import uuid4

        drawn = uuid4()
        return profile.check(str(drawn) if profile.max_length >= 36 else drawn.hex)

    def _kept_by(self, profile: Profile) -> float | None:
        return profile.retention if self.retention is None else self.retention


def _carried_profile(request: _Request) -> Profile:
    """The profile whose header a request to an unknown host has, else that of the draft standard."""
    named = (profile for profile in PROFILES.values() if profile.body_field is None)
    return next((one for one in named if read(request.headers, one.header.lower())), PROFILES["ietf"])


def _request(method: str, url: object, headers: object, body: object) -> _Request:
    if not isinstance(method, str) or not method:
        raise refuse("method", "must be the name of an HTTP method", method)
    if body is not None and not isinstance(body, bytes):
        raise refuse("body", "must be bytes or None", type(body).__name__)
    content_type = ", ".join(read(headers, "content-type").get("content-type", []))
    return _Request(method.upper(), _host(url), content_type, headers, body)


def _host(url: object) -> str:
    """Host and port of a URL in lower case, as far as they can be made out."""
    from urllib.parse import urlsplit

    try:
        place = urlsplit(str(url)).netloc
    except ValueError:
        return ""
    return place.rpartition("@")[2].lower()


def _methods(methods: object) -> frozenset[str]:
    found = list(methods) if _is_many(methods) else [methods]
    names = [method.upper() for method in found if isinstance(method, str) and method.isalpha()]
    if len(names) < len(found):
        raise refuse("methods", "must be names of HTTP methods", found)
    return frozenset(names)


def _is_many(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, (list, tuple, set, frozenset))


def _operation(operation: object) -> str:
    fits = isinstance(operation, str) and 1 <= len(operation) <= _LONGEST_OPERATION
    if not isinstance(operation, str) or not fits or not operation.isprintable():
        raise refuse("operation", f"must be 1 to {_LONGEST_OPERATION} printable characters", operation)
    return operation


def _carried(request: _Request, profile: Profile | None, key: str | None) -> str | None:
    """The key that the request has already. Raises ConfigError where it cannot be read, or is not ``key``."""
    one = profile or _carried_profile(request)
    if one.body_field is not None:
        found = key_in(request.body, one.body_field)
    else:
        lines = read(request.headers, one.header.lower()).get(one.header.lower(), [])
        if not lines:
            return None
        found = read_key(lines[0]) if len(lines) == 1 else None
        if found is None:
            raise refuse(one.header, "must be one key, quoted or of visible ASCII characters", lines)
    if found is not None and key is not None and found != key:
        raise refuse("key", f"must be the one that the request has, {found!r}", key)
    return found


def _sent(request: _Request, profile: Profile, row: Row, *, carried: bool) -> Sent:
    headers: dict[str, str] = {}
    body = request.body
    if not carried and profile.body_field is not None:
        body = with_key(body or b"", profile.body_field, row.key)
    elif not carried:
        headers[profile.header] = profile.written(row.key)
    return Sent(request.method, request.content_type, headers, body)
