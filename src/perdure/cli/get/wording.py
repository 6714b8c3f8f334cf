"""The sentences of ``perdure get`` on stderr: what happened, what comes next, why it ended. Pure text."""

from __future__ import annotations

from perdure.cli.child.signals import name_of
from perdure.cli.get.redact import host_of
from perdure.cli.wording import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.get.part import Part, Stream
    from perdure.cli.get.record import Attempt, Ending, Request

__all__ = ["ended", "failed", "follows", "restarted", "scheduled", "size"]


def scheduled(request: Request, attempt: Attempt, number: int, delay: float, *, anew: bool = False) -> str:
    """Say that a round failed: "attempt 1 of 4 got HTTP 503 Service Unavailable after 20 ms; next in 400 ms".

    ``anew``: it got further than those before, and is the first of the next count.
    """
    further = "got further, counting anew; " if anew else ""
    following = f"next in {human(delay)}" if delay else "next at once"
    return f"perdure: {_event(request, attempt, number)}; {further}{following}"


def failed(request: Request, attempt: Attempt, number: int) -> str:
    """Say that one of several failed that race."""
    return f"perdure: {_event(request, attempt, number)}"


def follows(request: Request, attempt: Attempt, number: int, url: str) -> str:
    """Say that a mirror failed and another one is asked at once."""
    return f"perdure: {_event(request, attempt, number)}; next is {host_of(url)}"


def restarted(request: Request, attempt: Attempt, number: int, why: str) -> str:
    """Say that what is here cannot be continued."""
    return f"perdure: {_subject(request, attempt, number)}: {why}; starting again from the first byte"


def ended(
    request: Request, sink: Part | Stream, ending: Ending, last: Attempt | None, number: int
) -> list[str]:
    """The last lines of a run; ``last`` is the failed attempt that nothing was said about."""
    if ending.ok:
        raced = [] if last is None else [failed(request, last, number)]  # and another one won
        return [*raced, _saved(sink, ending)] if sink.keeps else raced
    kept = _kept(request, sink)
    if ending.stop == "interrupted":
        return [f"perdure: stopped by {name_of(ending.signal or 0)}{kept}"]
    said = ending.why if last is None else _event(request, last, number)
    event = f"{said}; " if said else ""
    return [f"perdure: {event}{_conclusion(request, ending)}{kept}"]


def size(count: float) -> str:
    """Bytes for people: "999 bytes", "12.3 MB" (powers of 1000)."""
    if count < 1000:
        return f"{count:.0f} byte{'' if round(count) == 1 else 's'}"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5:
            return f"{count:.3g} {unit}"
    return f"{count:.0f} TB"


def _saved(sink: Part | Stream, ending: Ending) -> str:
    rate = f", {size(ending.received / ending.elapsed)}/s" if ending.elapsed >= 1 else ""
    more = (
        f", {size(ending.resumed_from)} of them from before" if 0 < ending.resumed_from < ending.size else ""
    )
    return f"perdure: saved {sink.name}: {size(ending.size)} in {human(ending.elapsed)}{rate}{more}"


def _kept(request: Request, sink: Part | Stream) -> str:
    if not sink.keeps or not sink.have:
        return ""
    if request.resumes and (sink.known.validator or request.checksum):
        return f"; {size(sink.have)} are kept in {sink.path}, and the same command goes on from there"
    return f"; {size(sink.have)} are left in {sink.path}, and another run starts again"


def _subject(request: Request, attempt: Attempt, number: int) -> str:
    of = "" if request.allowed is None else f" of {request.allowed}"
    where = f" at {host_of(attempt.url)}" if len(request.urls) > 1 else ""
    return f"attempt {number}{of}{where}"


def _event(request: Request, attempt: Attempt, number: int) -> str:
    why = attempt.fault.why if attempt.fault is not None else attempt.result
    if why.startswith("HTTP "):
        said = f" got {why}"
    elif why.startswith(("timed out:", "timed out after")):
        said = f" {why}"
    else:
        said = f" failed: {why}"
    took = (attempt.ended or attempt.started) - attempt.started
    took_words = "" if attempt.timed_out else f" after {human(took)}"
    came = f" ({size(attempt.received)} came)" if attempt.received else ""
    return _subject(request, attempt, number) + said + took_words + came


def _conclusion(request: Request, ending: Ending) -> str:
    spent = f"in {human(ending.elapsed)}"
    if ending.stop == "attempts":
        return f"gave up {spent}"
    if ending.stop == "deadline":
        limit = f"the deadline of {human(request.deadline or 0.0)}"
        if ending.refused:
            return f"gave up {spent}: the next wait, {human(ending.refused)}, would pass {limit}"
        return f"gave up {spent}: {limit} is over"
    if ending.stop == "hint":
        cap = human(request.policy.hint_cap)
        return f"the server asks for {human(ending.retry_after or 0.0)}, more than --max-retry-after {cap}"
    return _OTHERWISE.get(ending.stop, "not retried")


_OTHERWISE = {"unreplayable": "cannot be resumed", "checksum": "it is not what was asked for"}
