"""HTTP statuses, and the exceptions of http.client and urllib."""

from __future__ import annotations

import http

from perdure.faults.headers import is_rate_field, read_where
from perdure.faults.kinds import RETRIED, Fault, FaultKind
from perdure.faults.rules import known_fault
from perdure.faults.safety import REPLAYABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_status"]

_KINDS: dict[int, FaultKind] = {
    **dict.fromkeys((408, 423, 425, 460, 521, 522, 523, 599), FaultKind.TRANSIENT),
    **dict.fromkeys((420, 429, 509, 529), FaultKind.THROTTLED),
    **dict.fromkeys((401, 407, 421, 440, 511, 561), FaultKind.STALE),
    **dict.fromkeys((501, 505, 506, 507, 508, 510, 525, 526, 540), FaultKind.PERMANENT),
    **dict.fromkeys((304, 499), FaultKind.NEUTRAL),
}
"""What differs from the rest of its hundred. An unknown status counts as the first of its hundred."""

_HUNDREDS = {
    1: FaultKind.NEUTRAL,
    2: FaultKind.NEUTRAL,
    3: FaultKind.STALE,
    4: FaultKind.PERMANENT,
    5: FaultKind.AMBIGUOUS,  # also a bare 503: only the delay it asks for says that it was refused unseen
}

_VENDOR = {
    420: "Enhance Your Calm",
    440: "Login Time-out",
    460: "Client Closed Connection",
    499: "Client Closed Request",
    509: "Bandwidth Limit Exceeded",
    520: "Unknown Error at the origin",
    521: "Origin Down",
    522: "Origin Connection Timed Out",
    523: "Origin Unreachable",
    524: "Origin Timed Out",
    525: "Origin TLS Handshake Failed",
    526: "Invalid Origin Certificate",
    529: "Overloaded",
    530: "Origin DNS Error",
    540: "Temporarily Disabled",
    561: "Unauthorized",
    598: "Proxy Read Timeout",
    599: "Proxy Connect Timeout",
}

# With a valid delay these say "not now" instead of "no" or "perhaps".
_ASKED = {413: FaultKind.TRANSIENT, 503: FaultKind.THROTTLED, 507: FaultKind.TRANSIENT}


def fault_of_status(
    status: object, headers: object = None, method: str | None = None, body: object = None
) -> Fault:
    """Classify an HTTP status; a success is neutral.

    The delay that `headers` (a mapping or pairs) or `body` ask for is read only where a status gives it a
    meaning. `body` is what is already in memory: bytes, text or a parsed JSON document. Error codes in it
    outrank the status, and the server's own word (`x-should-retry`) outranks both. A bare 500, 502, 503, 504
    is ambiguous for every `method`: whether that is retried is the operation's safety. A 408 is ambiguous
    when `method` is known and not idempotent. Never raises. Shares its results; safe from any thread or task.
    """
    if not isinstance(status, int) or not 100 <= status <= 599:
        return _NO_STATUS
    status = int(status)  # an enum member of some library
    kind = _KINDS.get(status) or _HUNDREDS[status // 100]
    if status == 408 and isinstance(method, str) and method.upper() not in REPLAYABLE:
        kind = FaultKind.AMBIGUOUS
    if status < 400 or (headers is None and body is None):
        return _plain(status, kind)
    return _answered(status, kind, headers, body)


def _answered(status: int, kind: FaultKind, headers: object, body: object) -> Fault:
    """Classify an error answer by all it says: codes, delays, and its word on whether to retry."""
    from perdure.faults.bodies import code_in
    from perdure.faults.documents import load
    from perdure.faults.hints import asked_delay
    from perdure.faults.said import is_github_limit, should_retry

    # Read once, as what follows asks several times; most fields say nothing.
    found = {} if headers is None else read_where(headers, _speaks)
    is_mute = found.keys() <= _CLOCKS
    if is_mute and (body is None or (type(body) is bytes and (status, body) in _SILENT)):
        return _plain(status, kind)
    headers = None if headers is None else found
    before, document = kind, load(body)
    code = code_in(status, headers, body, document)
    delay = None
    if code is not None:
        kind = code[0]
    else:
        delay = asked_delay(headers, status=status, body=document)
        if delay is not None:
            kind = _ASKED.get(status, kind)
        if status == 403 and is_github_limit(headers, document):
            kind = FaultKind.THROTTLED
    ordered = _ordered(kind, should_retry(headers))
    if code is not None or ordered is not kind:  # then the status does not say whether a delay has a meaning
        throttled = 429 if ordered is FaultKind.THROTTLED else None
        delay = asked_delay(headers, status=throttled, body=document) if ordered in RETRIED else None
    if code is None and not delay:
        if is_mute and delay is None and kind is before:
            _remember(status, body, document)
        return _plain(status, ordered)
    phrase = _phrase(status)
    return Fault(ordered, delay or None, phrase if code is None else f"{phrase}: {code[1]}")


def _ordered(kind: FaultKind, word: bool | None) -> FaultKind:  # noqa: FBT001
    """What is left of a kind when the server says by itself whether to retry."""
    if word is None or (word and kind is FaultKind.THROTTLED):
        return kind
    return FaultKind.TRANSIENT if word else FaultKind.PERMANENT


_SPEAKING = frozenset(
    {
        *("x-should-retry", "stripe-should-retry", "transient-error", "x-github-request-id"),
        *("grpc-retry-pushback-ms", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"),
        *("x-amzn-errortype", "x-ms-error-code", "retry-after", "date", "age"),
    }
)
_CLOCKS = frozenset({"date", "age"})
"""These mean something only beside another field, or a code."""

_LONG_AGO = {"date": ["Thu, 01 Jan 1970 00:00:00 GMT"]}
_SHORT, _KEPT = 1_024, 100
_SILENT: set[tuple[int, bytes]] = set()
"""Bodies that said nothing: in an outage the same page comes again and again."""


def _speaks(name: str) -> bool:
    """Whether a header field may say something about a failure."""
    return name in _SPEAKING or is_rate_field(name)


def _remember(status: int, body: object, document: object) -> None:
    """Note a body that says nothing, whatever the clock of the server says."""
    from perdure.faults.bodies import code_in

    if type(body) is bytes and len(body) <= _SHORT and code_in(status, _LONG_AGO, body, document) is None:
        if len(_SILENT) >= _KEPT:
            _SILENT.clear()
        _SILENT.add((status, body))


_NO_STATUS = Fault(FaultKind.PERMANENT, None, "not an HTTP status")
_PLAIN: dict[tuple[int, FaultKind], Fault] = {}


def _plain(status: int, kind: FaultKind) -> Fault:
    fault = _PLAIN.get((status, kind))
    if fault is None:
        fault = _PLAIN[status, kind] = Fault(kind, None, _phrase(status))
    return fault


def _phrase(status: int) -> str:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = _VENDOR.get(status, "")
    return f"HTTP {status} {phrase}".rstrip()


def _http_error(exc: Any) -> Fault:
    return fault_of_status(exc.code, exc.headers)


def _url_error(exc: Any) -> Fault | None:
    """An exception as reason is the failure itself; a text says little, so the cause is asked first."""
    reason = exc.reason
    if reason is exc:  # it would be asked for ever
        return _BAD_URL
    if isinstance(reason, BaseException):
        return known_fault(reason)
    if isinstance(reason, str) and "timed out" in reason:
        return _TIMED_OUT
    return None if exc.__cause__ is not None else _BAD_URL


_TIMED_OUT = Fault(FaultKind.AMBIGUOUS, None, "timed out")
_BAD_URL = Fault(FaultKind.PERMANENT, None, "URL cannot be opened")
_OUT_OF_STEP = Fault(FaultKind.STALE, None, "HTTP connection out of step: open a new one")


def _cut(why: str) -> Fault:
    return Fault(FaultKind.AMBIGUOUS, None, why)


def _wrong(why: str) -> Fault:
    return Fault(FaultKind.PERMANENT, None, why)


RULES: dict[str, Step] = {
    "http.client.RemoteDisconnected": _cut("server closed the connection without an answer"),
    "http.client.IncompleteRead": _cut("response body cut short"),
    "http.client.BadStatusLine": _cut("garbage instead of a status line"),
    "http.client.ImproperConnectionState": _OUT_OF_STEP,
    "http.client.NotConnected": _OUT_OF_STEP,
    "http.client.InvalidURL": _wrong("invalid URL"),
    "http.client.LineTooLong": _wrong("header line too long"),
    "http.client.UnknownProtocol": _wrong("unknown HTTP version"),
    "http.client.UnknownTransferEncoding": _wrong("unknown transfer encoding"),
    "http.client.UnimplementedFileMode": _wrong("unimplemented file mode"),
    "http.cookiejar.LoadError": _wrong("unreadable cookie file"),
    "urllib.error.HTTPError": _http_error,
    "urllib.error.ContentTooShortError": _cut("response body cut short"),
    "urllib.error.URLError": _url_error,
}
