"""Why a request with an idempotency key is not sent. Each is raised before any byte leaves.

::

    PerdureError
    ├── KeyProblem
    │   ├── KeyMissing           an unsafe request for which there is no key
    │   ├── KeyReused            the key stands for another payload
    │   ├── InProgress           another call with this key has not ended yet
    │   ├── OutcomeUnknown       a call with this key never ended, and the server may have forgotten the key
    │   └── AlreadyDone          the operation was done, and the server may have forgotten the key
    └── StoreUnavailable         the file of keys cannot be used
"""

from __future__ import annotations

from perdure.errors import PerdureError

__all__ = [
    "AlreadyDone",
    "InProgress",
    "KeyMissing",
    "KeyProblem",
    "KeyReused",
    "OutcomeUnknown",
    "StoreUnavailable",
]


class KeyProblem(PerdureError):
    """A request was not sent because of its idempotency key.

    ``key`` and ``operation`` say which (None: there is none), ``host`` where it should have gone, ``status`` what
    the server answered earlier, if that is known. Instances are plain values: they pickle, and threads and tasks
    may share them.
    """

    _says = "refused"
    _way_out = ""

    def __init__(
        self,
        key: str | None = None,
        operation: str | None = None,
        host: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(key, operation, host, status)
        self.key = key
        self.operation = operation
        self.host = host
        self.status = status

    def __str__(self) -> str:
        who = f"operation {self.operation!r} (key {self.key!r})" if self.operation else f"key {self.key!r}"
        where = f" at {self.host}" if self.host else ""
        answer = f" (it answered {self.status})" if self.status is not None else ""
        return f"{who}{where}: {self._says}{answer}{self._way_out}"


class KeyMissing(KeyProblem):
    """An unsafe request to a host for which no profile is known, without a key of its own.

    Sent twice, it would act twice. The way out is a profile for the host, a key in the request, or
    ``allow_unsafe=True`` where a request that is sent twice does no harm.
    """

    _says = "an unsafe request to a host without a profile has no idempotency key"
    _way_out = "; name a profile for the host, give key=, or set allow_unsafe=True"

    def __str__(self) -> str:
        return f"{self.host or 'unknown host'}: {self._says}{self._way_out}"


class KeyReused(KeyProblem):
    """The key was used for another payload: another method, content type or body.

    The server would refuse it, or worse, answer with the result of the other request. The way out is another key
    or operation name. After a request that was refused for sure, the operation takes a corrected payload.
    """

    _says = "used before with another payload"
    _way_out = "; take another key or operation for another request"


class InProgress(KeyProblem):
    """Another call with this key or operation has not ended yet, in this process or in another one.

    It says nothing about how that call will end. The way out is to wait for it, or to try again later: then the
    key is given out again.
    """

    _says = "another call with it is in progress"
    _way_out = "; wait for that one, or call again later"


class OutcomeUnknown(KeyProblem):
    """A call with this key never learned how it ended, and the server may have forgotten the key by now.

    Sent again, it could act a second time. The way out is to look up at the server what became of it, and then
    ``ClientStore.forget(key)``.
    """

    _says = "sent earlier with an unknown outcome, too long ago to send the same key again"
    _way_out = "; ask the server what became of it, then forget the key"


class AlreadyDone(KeyProblem):
    """The operation was done, so long ago that the server may have forgotten its key.

    Sent again, it would act a second time. ``status`` is what the server answered then.
    """

    _says = "done earlier, too long ago to have the answer repeated"
    _way_out = "; take another operation name to do it again"


class StoreUnavailable(PerdureError):
    """The file that holds the keys cannot be read or written, so nothing was sent.

    ``path`` is the file, ``reason`` says why in words. Instances are plain values, safe to pass between threads.
    """

    def __init__(self, path: str = "", reason: str = "") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; the request was not sent"
