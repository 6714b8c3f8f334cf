"""Ends across processes: a header of the request says how long its caller waits, and the other side keeps to it.

================  ==================================================  ===========================
form              what stands in the header                           told by
================  ==================================================  ===========================
``unix``          seconds (or milliseconds) since 1970 by wall clock  a number over 1e9 (or 1e12)
``iso``           a moment as in RFC 3339                             its shape
``seconds``       seconds left                                        a smaller number
``milliseconds``  milliseconds left                                   a name that ends in "-ms"
``grpc``          time left as gRPC writes it, such as ``250m``       its shape, or its name
================  ==================================================  ===========================

A moment needs clocks that agree. Time left does not, but leaves out how long the request was on its way.

The sender may be anyone: what cannot be understood is as if it were not there, never an error, and what can is
bounded. Every parse is linear in the length of the value.
"""

from __future__ import annotations

import re

from perdure import clock
from perdure.engine import ambient, logs
from perdure.engine.deadlines import Deadline
from perdure.errors import ConfigError, DeadlineExceeded
from perdure.faults import headers as fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from typing import Self

__all__ = ["Received", "read", "time_left", "write"]

NAME, GRPC_NAME = "X-Request-Deadline", "grpc-timeout"
LONGEST = 3e8
"""Seconds; ends further ahead count as this one. Below 1e9, so that seconds left are never taken for a moment."""

_SECONDS_SINCE_1970, _MILLISECONDS_SINCE_1970 = 1e9, 1e12  # numbers above are such
_TOO_LONG = 256  # characters; no sender means this, and a float holds as many digits
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# ASCII only: float() takes much that senders do not mean, such as "inf" and "1_0".
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_GRPC = re.compile(r"([0-9]{1,8})([numSMH])")
# gRPC's units, finest first: so many of it in so many seconds.
_UNITS = {"n": (10**9, 1), "u": (10**6, 1), "m": (1000, 1), "S": (1, 1), "M": (1, 60), "H": (1, 3600)}
_EIGHT_DIGITS = 99_999_999

_lines_left = [1]  # log lines, in this process


def write(name: str | None = None, *, form: str = "unix") -> dict[str, str]:
    """Say in a header how long there is: ``client.get(url, headers=perdure.headers.write())``.

    Empty where there is no end. ``form`` is "unix", "iso", "seconds", "milliseconds" or "grpc"; ``name`` is
    X-Request-Deadline, or grpc-timeout for that form, unless given. Time left is cut, never rounded up: to
    milliseconds, for gRPC to what eight digits hold. An end that has passed is written as one.

    Raises ConfigError for another form, and for a name that no header can have. Callable from any thread or
    task; each sees its own ends.
    """
    field = _name(name, form)
    left = ambient.time_left()
    return {} if left is None else {field: _WRITERS[form](min(left, LONGEST))}


def read(
    headers: object,
    name: str | None = None,
    *,
    form: str | None = None,
    cap: float | str | timedelta | None = None,
) -> Received:
    """Open the end that the caller sent for a block: ``with perdure.headers.read(request.headers): ...``.

    It is that of a ``perdure.deadline`` block, counted from this call. Where it has passed, entering raises
    DeadlineExceeded at once, as nobody waits for the work any more. Where the caller sent none, or nothing that
    can be understood, the block has no end of its own; at most one log line per process says so.

    ``headers`` is a mapping (case does not matter), a list of pairs of text or bytes, or None. ``name`` as for
    ``write``; ``form`` is told from the name and the value unless given. Of several ends the nearest holds.
    ``cap`` is the most that a caller may ask for (default: no bound).

    Raises ConfigError for a form, name or cap that cannot be. One object serves one block, in one task or
    thread.
    """
    left = time_left(headers, name, form=form, cap=cap)
    return Received(None if left is None else clock.monotonic() + left)


def time_left(
    headers: object,
    name: str | None = None,
    *,
    form: str | None = None,
    cap: float | str | timedelta | None = None,
) -> float | None:
    """Seconds to the end that the caller sent, at least 0; None where it sent none that can be understood.

    Parameters and errors as for ``read``; nothing is opened. As safe for threads as ``headers`` is.
    """
    from perdure.durations import seconds

    field = _name(name, form).lower()
    bound = LONGEST if cap is None else min(seconds(cap, field="cap"), LONGEST)
    values = fields.read(headers, field).get(field, ())
    return min((min(left, bound) for value in values for left in _ends(value, field, form)), default=None)


class Received(Deadline):
    """The block behind ``read``; it does nothing where the caller sent no end."""

    __slots__ = ("_at",)

    def __init__(self, at: float | None) -> None:
        super().__init__(None)
        self._at = at

    def __enter__(self) -> Self:
        if self._at is None:
            return self
        self._length = self._at - clock.monotonic()
        if self._length <= 0:
            raise DeadlineExceeded("the caller's deadline had passed before the work began")
        return super().__enter__()


def _ends(value: str, name: str, form: str | None) -> Iterator[float]:
    """The time left by every member of a value: proxies join the fields of one name with commas."""
    if len(value) > _TOO_LONG:
        _ignored(name, value)
        return
    for member in filter(None, map(str.strip, value.split(","))):
        left = _READERS[form or _told(member, name)](member)
        if left is None:
            _ignored(name, member)
        else:
            yield max(left, 0.0)


def _told(text: str, name: str) -> str:
    """The form of a value, by its name where that says it."""
    number = _number(text)
    if name == GRPC_NAME or _GRPC.fullmatch(text):
        return "grpc"
    if number is None:
        return "iso"
    if name.endswith("-ms"):
        return "unix" if number > _MILLISECONDS_SINCE_1970 else "milliseconds"
    return "unix" if number > _SECONDS_SINCE_1970 else "seconds"


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _from_unix(text: str) -> float | None:
    number = _number(text)
    if number is None:
        return None
    return (number / 1000 if number > _MILLISECONDS_SINCE_1970 else number) - clock.wall()


def _from_iso(text: str) -> float | None:
    from perdure.faults.delays import moment

    at = moment(text)
    return None if at is None else at - clock.wall()


def _from_milliseconds(text: str) -> float | None:
    number = _number(text)
    return None if number is None else number / 1000


def _from_grpc(text: str) -> float | None:
    match = _GRPC.fullmatch(text)
    if match is None:
        return None
    per, seconds = _UNITS[match[2]]
    return int(match[1]) * seconds / per


def _to_unix(left: float) -> str:
    at = int((clock.wall() + left) * 1000)
    return f"{at // 1000}.{at % 1000:03d}"


def _to_iso(left: float) -> str:
    from datetime import UTC, datetime, timedelta

    at = int((clock.wall() + left) * 1000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_seconds(left: float) -> str:
    count = _cut(left, 1000, 1)
    return f"{count // 1000}.{count % 1000:03d}"


def _to_grpc(left: float) -> str:
    counts = ((unit, _cut(left, per, seconds)) for unit, (per, seconds) in _UNITS.items())
    return next(f"{count}{unit}" for unit, count in counts if count <= _EIGHT_DIGITS)


def _cut(left: float, per: int, seconds: int) -> int:
    """How many whole units, ``per`` of which make ``seconds``, are in what is left."""
    count = int(left * per / seconds)
    return count - 1 if count * seconds / per > left else count  # the product may have been rounded up


_READERS: dict[str, Callable[[str], float | None]] = {
    "unix": _from_unix,
    "iso": _from_iso,
    "seconds": _number,
    "milliseconds": _from_milliseconds,
    "grpc": _from_grpc,
}
_WRITERS: dict[str, Callable[[float], str]] = {
    "unix": _to_unix,
    "iso": _to_iso,
    "seconds": _to_seconds,
    "milliseconds": lambda left: str(_cut(left, 1000, 1)),
    "grpc": _to_grpc,
}


def _name(name: str | None, form: str | None) -> str:
    if form is not None and form not in tuple(_READERS):
        raise ConfigError(f"form must be one of {', '.join(_READERS)}, got {form!r}")
    if name is None:
        return GRPC_NAME if form == "grpc" else NAME
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ConfigError(f"name must be the name of a header, got {name!r}")
    return name


def _ignored(name: str, value: str) -> None:
    """Say once in a process that a header is not understood; more would let any sender fill the log."""
    log = logs.logger()
    if log is None:
        return
    try:
        _lines_left.pop()
        log.warning("the header %s holds no end that can be read and is ignored: %.80r", name, value)
    except Exception:  # noqa: BLE001 - no line is left; or a handler of the program raised
        return


def reset() -> None:
    """Have the one log line again (for tests)."""
    _lines_left[:] = [1]
