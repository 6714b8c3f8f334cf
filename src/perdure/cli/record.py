"""What a run was asked to do, what its attempts did, and how it ended: the facts, as values."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.cli.child.supervised import Ran
    from perdure.cli.rules import Rules, Verdict
    from perdure.policies import Retry

__all__ = ["Attempt", "Ending", "Refusal", "Request", "Sharing"]

# Named tuples and plain classes: each dataclass would add a millisecond to every start of the program.
NO_MAP: Mapping[str, int | None] = {}


class Sharing(NamedTuple):
    """What a run shares with other processes: names (None: nothing), and the numbers that go with them.

    ``state`` is the file (None: the user's own); ``lock_wait`` is infinite for "forever". Immutable.
    """

    breaker: str | None = None
    budget: str | None = None
    lock: str | None = None
    failures: int = 5
    cooldown: float = 60.0
    lock_wait: float = 0.0
    state: str | None = None


class Request(NamedTuple):
    """One ``perdure run`` with all options settled. Immutable; durations in seconds, sizes in bytes."""

    command: tuple[str, ...]
    policy: Retry
    rules: Rules
    grace: float = 5.0
    verify: str | None = None
    on_retry: str | None = None
    on_giveup: str | None = None
    stdin: bool = True
    stdin_limit: int = 256 << 20
    hold: bool = False
    exit_map: Mapping[str, int | None] = NO_MAP
    idempotency_key: str = ""
    ends_at: float | None = None  # wall clock, seconds since 1970
    quiet: bool = False
    progress: bool = True
    json: bool = False
    report: str | None = None
    events: str | None = None
    sharing: Sharing | None = None

    @property
    def allowed(self) -> int | None:
        """How many attempts there may be in all; None for no bound."""
        return self.policy.attempts


class Attempt:
    """One attempt, complete once it was judged.

    ``started`` is in seconds from the start of the run. ``delay``, the wait after it in seconds, is filled in
    when the next attempt is decided, and ``left_running`` when its processes were looked after.
    """

    __slots__ = ("delay", "left_running", "number", "ran", "started", "verdict", "verified")

    def __init__(
        self, number: int, started: float, ran: Ran, verdict: Verdict, verified: Ran | None = None
    ) -> None:
        self.number = number
        self.started = started
        self.ran = ran
        self.verdict = verdict
        self.verified = verified
        self.delay: float | None = None
        self.left_running = False

    @property
    def duration(self) -> float:
        """Seconds of the command and of its verification."""
        return self.ran.duration + (self.verified.duration if self.verified is not None else 0.0)


class Refusal(NamedTuple):
    """An attempt that was not made, to spare what it calls or because another process runs. Immutable.

    ``stop`` is "breaker" or "lock", ``why`` says it in words.
    """

    stop: str
    why: str
    retry_after: float | None = None


class Ending(NamedTuple):
    """How the run ended. Immutable.

    ``stop`` is a ``StopReason`` value, "lock", or "interrupted" by ``signal``; ``refused`` is the wait in
    seconds that would have passed the deadline. ``attempts`` counts those that were made. ``retry_after`` is in
    how many seconds another run makes sense, where a breaker says so.
    """

    stop: str
    code: int
    elapsed: float
    attempts: int
    why: str = ""
    refused: float | None = None
    signal: int | None = None
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the command did what it was run for."""
        return self.stop == "success"
