"""What a policy would do, in words and numbers, and what is wrong with it.

Pure: computed from the policy's fields alone, for people (text), programs (``as_dict``) and files (JSON).
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.backoff import DEFAULT, THROTTLED
from perdure.core.decide import HINT_SPREAD, HINT_SPREAD_LIMIT
from perdure.durations import human
from perdure.faults.kinds import FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.backoff import Backoff
    from perdure.policies import Retry

__all__ = ["Explanation", "Warning_", "explain_retry"]

DRAWS = 1000
SHOWN = 10
"""Delays are listed for at most so many retries."""

RETRIED = "408, 425, 429, 500, 502, 503, 504 and the like; connection and DNS failures, timeouts, locks"
CLIENT_ERRORS = ("ValueError", "TypeError", "KeyError", "LookupError", "PermissionError", "AttributeError")


@dataclass(frozen=True, slots=True)
class Warning_:  # noqa: N801 - Warning is a builtin
    """One anti-pattern that a configuration shows: a stable ``code``, and what to do about it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The plan of a policy; ``str()`` gives text, ``as_dict()`` plain values, ``to_json()`` JSON.

    Immutable: safe to share between threads and tasks.
    """

    fields: dict[str, Any]
    warnings: tuple[Warning_, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values; ``warnings`` is a list of {code, message}. Durations are seconds."""
        from copy import deepcopy

        return {
            **deepcopy(self.fields),
            "warnings": [{"code": one.code, "message": one.message} for one in self.warnings],
        }

    def to_json(self) -> str:
        """The plan as JSON, two spaces deep."""
        import json

        return json.dumps(self.as_dict(), indent=2)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>\n{self}"

    def __str__(self) -> str:
        plan = self.fields
        lines = [
            _line("target", plan["target"]),
            _line("strategy", plan["strategy"]),
            _line("attempts", "unbounded" if plan["attempts"] is None else plan["attempts"]),
            _line("backoff", f"{plan['backoff']['formula']}, jitter {plan['backoff']['jitter']}"),
            *_delay_lines(plan["delays"]),
            _line("retried", plan["retried"]["exceptions"]),
            _line("never", plan["retried"]["never"]),
            _line("statuses", plan["retried"]["statuses"]),
            *(_line(name, text) for name, text in self._bounds()),
        ]
        if self.warnings:
            lines += ["", "warnings"]
            lines += [f"  {one.code}: {one.message}" for one in self.warnings]
        return "\n".join(lines)

    def _bounds(self) -> list[tuple[str, object]]:
        """What bounds the call, and what comes of it, by name."""
        plan = self.fields
        return [
            ("timeouts", _timeouts(plan["timeouts"])),
            ("deadline", _seconds(plan["deadline"], "none")),
            ("server delay", f"honoured up to {human(plan['hint_cap'])}; a longer one ends the call"),
            ("exhaustion", plan["on_exhaustion"]),
            ("worst case", _seconds(plan["worst_case_elapsed"], "unbounded") + plan["worst_case_note"]),
            ("amplification", _amplification(plan["amplification"])),
        ]


def explain_retry(policy: Retry, target: str | None = None) -> Explanation:
    """The plan of a Retry; ``target`` names what it guards where the policy does not."""
    attempts = policy.attempts
    worst, note = _worst_case(policy)
    fields = {
        "target": target or policy.name or "any function",
        "strategy": _strategy(policy),
        "attempts": attempts,
        "backoff": {
            "kind": type(policy.backoff).__name__,
            "formula": policy.backoff.formula(),
            "jitter": _jitter(policy.backoff),
            "throttled": "starts at 1 s" if policy.backoff is DEFAULT else "the same",
        },
        "delays": _delays(policy),
        "retried": {
            "exceptions": _wanted(policy.on, "what the classifier calls transient, throttled or ambiguous"),
            "never": _wanted(policy.never, "bugs and permanent faults"),
            "statuses": RETRIED if policy.on is None else "as the exceptions above",
            "results": "those that reject= refuses" if policy.reject is not None else "none",
        },
        "timeouts": {"connect": None, "read": None, "attempt": policy.attempt_timeout, "total": None},
        "deadline": _finite(policy.deadline),
        "hint_cap": float(policy.hint_cap),
        "on_exhaustion": _exhaustion(policy),
        "worst_case_elapsed": worst,
        "worst_case_note": note,
        "amplification": {"worst": attempts, "budgeted": None},
    }
    return Explanation(fields, tuple(_warnings(policy)))


def _delays(policy: Retry) -> list[dict[str, float]]:
    """Expected, median and worst wait before each attempt from the second, in seconds.

    Uniform draws have their mean and median in the middle; coherent, decorrelated and own jitters are drawn, a
    thousand calls that are always the same.
    """
    last = SHOWN + 1 if policy.attempts is None else min(policy.attempts, SHOWN + 1)
    backoff, listed = policy.backoff, list[dict[str, float]]()
    drawn = _draw(backoff, last - 1) if _is_uneven(backoff) else None
    for attempt in range(2, last + 1):
        low, high = backoff.typical(attempt - 1)
        expected = median = (low + high) / 2
        if drawn is not None:
            column = sorted(call[attempt - 2] for call in drawn)
            expected, median = sum(column) / len(column), column[len(column) // 2]
        listed.append(
            {"attempt": attempt, "lowest": low, "expected": expected, "median": median, "worst": high}
        )
    return listed


def _is_uneven(backoff: Backoff) -> bool:
    return (
        type(backoff).__name__ == "Decorrelated" or backoff.jitter == "coherent" or callable(backoff.jitter)
    )


def _draw(backoff: Backoff, retries: int) -> list[list[float]]:
    """The delays of DRAWS calls, from a small generator of its own (Numerical Recipes' 32-bit constants)."""
    state = 1

    def draw() -> float:
        nonlocal state
        state = (1664525 * state + 1013904223) % 2**32
        return state / 2**32

    calls: list[list[float]] = []
    for _ in range(DRAWS):
        u, delays = draw(), list[float]()
        for retry in range(1, retries + 1):
            delays.append(backoff.drawn(retry, delays[-1] if delays else None, draw, u))
        calls.append(delays)
    return calls


def _worst_case(policy: Retry) -> tuple[float | None, str]:
    """How long a call can take: every wait and every attempt at its longest, cut by the deadline.

    A server may ask for up to ``hint_cap`` before each retry, and the spread comes on top.
    """
    last = policy.attempt_timeout or 0.0
    note = "" if policy.attempt_timeout is not None else ", plus the time the attempts take (no timeout)"
    deadline = _finite(policy.deadline)
    total: float | None = None
    if policy.attempts is not None:
        hinted = policy.hint_cap + min(policy.hint_cap * HINT_SPREAD, HINT_SPREAD_LIMIT)
        count = policy.attempts - 1
        listed = min(count, SHOWN * 100)
        waits = sum(max(hinted, _highest(policy.backoff, n)) for n in range(1, listed + 1))
        waits += (count - listed) * max(hinted, _highest(policy.backoff, count))
        total = waits + count * last
    if deadline is not None and policy.attempts != 1 and (total is None or total > deadline):
        return deadline + last, f"{note} (nothing begins after the deadline; a server may ask for waits)"
    return (None if total is None else total + last), note + (
        " (with the longest waits a server may ask for)" if total else ""
    )


def _highest(backoff: Backoff, n: int) -> float:
    """The longest computed wait before a retry, also for throttled faults."""
    if n < 1:
        return 0.0
    longest = backoff.typical(n)[1]
    return max(longest, THROTTLED.typical(n)[1]) if backoff is DEFAULT else longest


def _warnings(policy: Retry) -> list[Warning_]:
    found: list[Warning_] = []
    if policy.attempts is None and policy.deadline is not None and _finite(policy.deadline) is None:
        found.append(
            Warning_("unbounded", "neither attempts nor time are bounded; set attempts= or a deadline")
        )
    single = policy.attempts == 1
    if policy.deadline is None and not single:
        found.append(Warning_("no-deadline", "slow attempts can hold the caller for ever; set deadline="))
    if not single:
        found += _retry_warnings(policy)
    if policy.on_exhausted == "return":
        found.append(
            Warning_(
                "silent-exhaustion", 'on_exhausted="return" hands on a rejected result as if it were good'
            )
        )
    return found


def _retry_warnings(policy: Retry) -> list[Warning_]:
    found = [
        Warning_(
            "no-budget",
            "a bare Retry survives blips, not overload: in an outage it multiplies the load by the attempts",
        )
    ]
    if _has_no_jitter(policy.backoff):
        found.append(
            Warning_("no-jitter", 'clients that failed together come back together; use jitter="full"')
        )
    if policy.attempt_timeout is not None and policy.shrink == 1.0:
        found.append(
            Warning_(
                "same-timeout", "every retry waits as long as the first; shrink=0.8 gives up on each sooner"
            )
        )
    types = [one for one in _parts(policy.on) if isinstance(one, type)]
    if Exception in types:
        found.append(
            Warning_("retries-everything", "on=Exception also repeats bugs and bad requests; name what fails")
        )
    if any(one.__name__ in CLIENT_ERRORS for one in types) or FaultKind.PERMANENT in _parts(policy.on):
        found.append(
            Warning_("retries-client-errors", "bad input and missing permission fail the same way every time")
        )
    if policy.nested == "both":
        found.append(Warning_("retry-in-retry", 'nested="both" multiplies the attempts of every layer'))
    if policy.hint_cap < 1:
        found.append(Warning_("hint-ignored", "hint_cap below 1 s ends calls that the server asked to wait"))
    return found


def _has_no_jitter(backoff: Backoff) -> bool:
    low, high = backoff.typical(2)
    return low == high > 0


def _jitter(backoff: Backoff) -> str:
    jitter = backoff.jitter
    if callable(jitter):
        return "own"
    return jitter if isinstance(jitter, str) else f"±{jitter:.0%}"


def _strategy(policy: Retry) -> str:
    return "a single attempt" if policy.attempts == 1 else f"{type(policy.backoff).__name__.lower()} backoff"


def _exhaustion(policy: Retry) -> str:
    if policy.on_exhausted == "return":
        return "a rejected result is returned; an error is raised as it is"
    told = ", after on_exhausted was told" if policy.on_exhausted is not None else ""
    return f"the function's own last error is raised{told}"


def _parts(wanted: Any) -> tuple[Any, ...]:
    several: tuple[Any, ...] = wanted if isinstance(wanted, tuple) else (wanted,)  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    return several


def _wanted(wanted: Any, default: str) -> str:
    if wanted is None:
        return default
    names = [
        getattr(one, "__name__", None) or getattr(one, "value", None) or repr(one) for one in _parts(wanted)
    ]
    return ", ".join(str(name) for name in names)


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else float(value)


def _seconds(value: float | None, none: str) -> str:
    return none if value is None else human(value)


def _timeouts(timeouts: dict[str, float | None]) -> str:
    attempt = _seconds(timeouts["attempt"], "none")
    return f"connect and read: those of the client; attempt: {attempt}; total: none"


def _amplification(amplification: dict[str, int | None]) -> str:
    worst = amplification["worst"]
    return f"{'unbounded' if worst is None else worst} x in the worst case; no budget bounds it"


def _delay_lines(delays: list[dict[str, float]]) -> list[str]:
    return [
        _line(
            "delays" if not index else "",
            f"before attempt {one['attempt']}: {human(one['expected'])} expected, {human(one['median'])} median, "
            f"{human(one['worst'])} at most",
        )
        for index, one in enumerate(delays)
    ]


def _line(name: str, text: object) -> str:
    return f"{name:<14} {text}"
