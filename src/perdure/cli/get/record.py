"""What a download was asked for, what its attempts did, and how it ended: the facts, as values."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.get.reading import Checksum
    from perdure.faults import Fault
    from perdure.policies import Retry

__all__ = ["Attempt", "Ending", "Failed", "Mirror", "Progressed", "Request", "Restart"]

TO_STDOUT = "-"


class Request(NamedTuple):
    """One ``perdure get`` with all options settled. Immutable; durations in seconds.

    ``data`` is the body, or the path of the file that holds it; ``output`` a path, or "-" for stdout. ``policy``
    carries attempts, waits and the timeout of an attempt, ``deadline`` the end of the whole (None: none).
    """

    urls: tuple[str, ...]
    policy: Retry
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    data: bytes | str | None = None
    output: str = TO_STDOUT
    checksum: Checksum | None = None
    resume: bool = True
    deadline: float | None = None
    stall: float = 30.0
    hedge: float | None = None
    idempotency_key: str | None = None
    quiet: bool = False
    progress: bool = True
    json: bool = False
    report: str | None = None
    events: str | None = None

    @property
    def allowed(self) -> int | None:
        """How often each URL may be asked without getting further; None for no bound."""
        return self.policy.attempts

    @property
    def resumes(self) -> bool:
        """Whether what is here already may be kept: only a GET has one content."""
        return self.resume and self.method == "GET"


class Attempt:
    """One request and what came of it; filled in as it goes on.

    Times are seconds from the start of the run. ``offset`` is the byte from which the content was asked for,
    ``received`` how many bytes of it came, ``delay`` the wait after it (None: no wait).
    """

    __slots__ = (
        "connected", "delay", "ended", "fault", "first_byte", "hedge", "number", "offset", "received", "result",
        "round", "started", "status", "timed_out", "url",
    )  # fmt: skip

    def __init__(
        self, number: int, round_: int, url: str, started: float, offset: int, *, hedge: bool
    ) -> None:
        self.number = number
        self.round = round_
        self.url = url
        self.hedge = hedge
        self.started = started
        self.connected: float | None = None
        self.first_byte: float | None = None
        self.ended: float | None = None
        self.status: int | None = None
        self.offset = offset
        self.received = 0
        self.fault: Fault | None = None
        self.timed_out = False
        self.result = "running"
        self.delay: float | None = None


class Mirror:
    """One of the URLs, and what is known about it; times are those of the monotonic clock."""

    __slots__ = ("no_range", "not_before", "struck", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.struck: Failed | None = None  # it failed for good
        self.not_before = 0.0  # it asked to be left alone until then
        self.no_range = False  # its ranges are not what they should be


class Failed(Exception):
    """An attempt failed; ``fault`` says what that is taken for, and a rule of the classifier repeats it."""

    def __init__(self, fault: Fault, *, timed_out: bool = False, ending: str = "") -> None:
        super().__init__(fault.why)
        self.fault = fault
        self.timed_out = timed_out
        self.ending = ending  # "checksum" or "unreplayable", where it ends the run in a way of its own


class Progressed(Exception):
    """An attempt failed after it had brought the download forward: the attempts are counted anew."""


class Restart(Exception):
    """What is here cannot be continued: ask this mirror for everything, once."""

    def __init__(self, mirror: Mirror, why: str) -> None:
        super().__init__(why)
        self.mirror = mirror


class Ending(NamedTuple):
    """How the run ended. Immutable.

    ``stop`` is a ``StopReason`` value, or "checksum", "interrupted" (by ``signal``) or "refused"; ``why`` says
    it in words. ``size`` is how many bytes are there, ``received`` how many came in this run. ``retry_after`` is
    the delay in seconds that the server asked for, ``refused`` the wait that was too long.
    """

    stop: str
    code: int
    elapsed: float
    why: str = ""
    size: int = 0
    received: int = 0
    resumed_from: int = 0
    digest: str | None = None
    retry_after: float | None = None
    refused: float | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        """Whether everything is here."""
        return self.stop == "success"
