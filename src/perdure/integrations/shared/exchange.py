"""One logical request: what all its attempts have in common, whichever client sends it."""

from __future__ import annotations

from perdure import headers as ends
from perdure.checks import refuse
from perdure.engine import responses
from perdure.engine.ambient import time_left
from perdure.engine.trail import trail_of
from perdure.errors import FaultyResponse, Refused
from perdure.faults import Safety
from perdure.faults.safety import KEY_FIELDS, REPLAYABLE
from perdure.integrations.shared.options import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.integrations.shared.answers import Judge
    from perdure.integrations.shared.bodies import Source
    from perdure.integrations.shared.lines import Lines
    from perdure.integrations.shared.options import Options, Override
    from perdure.parts import Timeouts

__all__ = ["ATTEMPT", "Exchange", "ended", "keep_trail", "origin_of", "shortest", "with_record"]

ATTEMPT = "X-Attempt"
_PORTS = {"http": 80, "https": 443}


class Exchange:
    """A request with what its attempts share. Belongs to the call that made it; its hedges may run side by side."""

    __slots__ = (
        "_judge",
        "before",
        "claim",
        "is_answered",
        "kind",
        "number",
        "options",
        "override",
        "request",
        "source",
        "timeouts",
    )

    def __init__(self, lines: Lines, request: Any, source: Source, override: Override | None) -> None:
        self.kind: type = lines.kind
        self.request: Any = request
        self.source: Source = source
        self.override: Override | None = override
        self.options: Options = lines.options.changed(override)
        self._judge: Judge = lines.judge_for(override)
        given = UNSET if override is None else override.timeouts
        self.timeouts: Timeouts | None = lines.timeouts if given is UNSET else given
        self.before: Any = None  # of the request, for attempts that follow
        self.claim: Any = None
        self.number: int = 0
        self.is_answered: bool = False

    def safety(self, method: str, has_field: Callable[[str], object]) -> Safety:
        """Whether it may be sent twice, by its method and whether it carries a key."""
        if method.upper() in REPLAYABLE:
            return Safety.SAFE
        if self.claim is not None or any(has_field(name) for name in KEY_FIELDS):
            return Safety.KEYED
        return Safety.UNSAFE

    def judge(self) -> Judge:
        """Says whether an answer is a failure; an attempt that asks was answered."""
        self.is_answered = True
        return self._judge if self.claim is None else self._judge.keyed()

    @property
    def keyed(self) -> dict[str, str | None]:
        """What the request says about its idempotency key: the key itself, the business id of its operation."""
        said = self.override
        names = ("idempotency_key", "operation")
        key, operation = (None if said is None else getattr(said, name) for name in names)
        return {
            "key": None if key is UNSET else key,
            "operation": None if operation is UNSET else operation,
        }

    def begin_attempt(self) -> None:
        """Count an attempt, and put its body back to where it stood."""
        self.number += 1
        if self.number > 1:
            self.lost()
            self.source.rewind()
        self.is_answered = False

    def lost(self) -> None:
        """Tell the idempotency key where an attempt ended without an answer."""
        if self.claim is not None and self.number and not self.is_answered:
            self.claim.lost()

    def added(self) -> dict[str, str]:
        """The header fields of this attempt alone."""
        options, found = self.options, dict[str, str]()
        if options.announce:
            found = {ATTEMPT: str(self.number), **ends.write()}
        if options.headers is not None:
            found.update(options.headers())
        return found

    def bounds(self) -> tuple[float | None, float | None, float | None]:
        """Seconds for connecting, for reading, and for the attempt as a whole; None: no bound."""
        left, timeouts = time_left(), self.timeouts
        if timeouts is None:
            return left, left, left
        return shortest(timeouts.connect, left), shortest(timeouts.read, left), left

    def conclude(self, send: Callable[[], Any], ended: Callable[[FaultyResponse], Any]) -> Any:
        """Send it, and tell the idempotency key how that ended; ``ended`` makes of a failure what the user gets."""
        try:
            response = send()
        except FaultyResponse as faulty:
            failed = faulty
        except BaseException as error:  # also an interrupt: the key has to be told how the call ended
            if self.claim is not None:
                self.lost()
                self.claim.unknown() if self._was_sent(error) else self.claim.failed()
            raise
        else:
            self._settle(response)
            return self._checked(response)
        self._settle(failed.response)
        return ended(failed)

    async def aconclude(self, send: Callable[[], Any], ended: Callable[[FaultyResponse], Any]) -> Any:
        """The same for async code."""
        try:
            response = await send()
        except FaultyResponse as faulty:
            failed = faulty
        except Exception as error:  # of whatever kind: the key has to be told how the call ended
            if self.claim is not None:
                self.lost()
                await (self.claim.aunknown() if self._was_sent(error) else self.claim.afailed())
            raise
        except BaseException as error:  # in a cancelled task nothing can be awaited
            if self.claim is not None:
                self.lost()
                self.claim.unknown() if self._was_sent(error) else self.claim.failed()
            raise
        else:
            await self._asettle(response)
            return self._checked(response)
        await self._asettle(failed.response)
        return ended(failed)

    def _settle(self, response: Any) -> None:
        if self.claim is not None:
            self.lost()
            self.claim.done(*_status_and_headers(response))

    async def _asettle(self, response: Any) -> None:
        if self.claim is not None:
            self.lost()
            try:
                await self.claim.adone(*_status_and_headers(response))
            except BaseException:  # cancelled: nobody will read it
                responses.drop(response)
                await responses.adrop(response)
                raise

    def _was_sent(self, error: BaseException) -> bool:
        return self.number > 0 and not isinstance(error, Refused)

    def _checked(self, response: Any) -> Any:
        """The response; a ConfigError for something else, which only a fallback can have given."""
        if not isinstance(response, self.kind):
            raise refuse("fallback", f"must give the client's {self.kind.__name__}", response)
        return response


def shortest(one: float | None, other: float | None) -> float | None:
    """The nearer of two bounds, of which each may be none."""
    if one is None or (other is not None and other < one):
        return other
    return one


def origin_of(scheme: str, host: str, port: int | None) -> str:
    """Host and port as people write them: the usual port is left out."""
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return host if port is None or _PORTS.get(scheme) == port else f"{host}:{port}"


def with_record(error: Any, faulty: FaultyResponse) -> Any:
    """The client's own error with the record of the attempts, to be raised as it is: a local would make a cycle."""
    error.__dict__.update(faulty.__dict__)
    return error


def ended(faulty: FaultyResponse, options: Options, error_of: Callable[[FaultyResponse], Exception]) -> Any:
    """What a call comes to whose attempts are used up: the last response, or an error."""
    response = keep_trail(faulty)
    if not options.raise_on_exhausted:
        return response
    if faulty.status is None or faulty.status < 400:
        raise faulty
    raise with_record(error_of(faulty), faulty) from None


def keep_trail(faulty: FaultyResponse) -> Any:
    """The response of a call that was given up, with the record of its attempts."""
    trail, response = trail_of(faulty), faulty.response
    faulty.__traceback__ = None  # it holds the frame that holds the error
    if trail is not None:
        responses.note(response, trail)
    return response


def _status_and_headers(response: Any) -> tuple[Any, Any]:
    status = getattr(response, "status_code", None)
    return getattr(response, "status", None) if status is None else status, getattr(response, "headers", None)
