"""``Dependency.explain()``: the plan of a dependency, from that of its Retry and the parts around it."""

from __future__ import annotations

from dataclasses import asdict

from perdure.core.explain import Explanation, Warning_, explain_retry
from perdure.durations import human
from perdure.engine.naming import operation_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.engine.kit import Kit
    from perdure.parts import Fallback
    from perdure.policies import Retry
    from perdure.settings import Settings

_SHOWN = 60
"""Characters of a fallback's value."""


class _Plan(Explanation):
    """The plan of a dependency, as text with a line for each part."""

    __slots__ = ()

    def _bounds(self) -> list[tuple[str, object]]:
        plan = self.fields
        return [
            ("timeouts", _timeouts(plan["timeouts"])),
            ("deadline", "none" if plan["deadline"] is None else human(plan["deadline"])),
            ("server delay", f"honoured up to {human(plan['hint_cap'])}; a longer one ends the call"),
            *[(name.replace("_", " "), _words(plan[name])) for name in _PARTS],
            ("safety", plan["safety"] or "by the request that an error carries, else safe"),
            ("keys", plan["keys"]),
            ("exhaustion", plan["on_exhaustion"]),
            ("worst case", _worst(plan)),
            ("amplification", _amplification(plan["amplification"])),
        ]


_PARTS = ("budget", "gate", "breaker", "rate_limit", "bulkhead", "hedge", "fallback")


def explain_dependency(guard: Guard) -> Explanation:
    """The plan of a dependency or of a view of one."""
    settings, retry = guard.settings, guard.retry
    kit = settings.kit()
    base = explain_retry(retry, guard.core.name)
    worst, note = _worst_case(base.fields, settings, retry)
    fields = {
        **base.fields,
        "timeouts": _bounds(settings, retry),
        "safety": None if retry.safety is None else retry.safety.value,
        "budget": _budget(kit),
        "gate": _gate(settings),
        "breaker": _breaker(kit),
        "rate_limit": None
        if settings.rate_limit is None
        else {**asdict(settings.rate_limit), "burst": kit.burst},
        "bulkhead": None if settings.bulkhead is None else asdict(settings.bulkhead),
        "hedge": None if settings.hedge is None else asdict(settings.hedge),
        "fallback": None if settings.fallback is None else _fallback(settings.fallback),
        "keys": _keys(guard),
        "on_exhaustion": _exhaustion(base.fields["on_exhaustion"], settings.fallback),
        "worst_case_elapsed": worst,
        "worst_case_note": note,
        "amplification": _amplified(settings, retry, kit),
    }
    return _Plan(fields, tuple(_warnings(base, guard)))


# The parts


def _bounds(settings: Settings, retry: Retry) -> dict[str, Any]:
    timeouts = settings.timeouts
    return {
        "connect": None if timeouts is None else timeouts.connect,
        "read": None if timeouts is None else timeouts.read,
        "attempt": retry.attempt_timeout,
        "total": None if timeouts is None else timeouts.total,
        "adaptive": timeouts is not None and timeouts.adaptive,
    }


def _budget(kit: Kit) -> dict[str, Any] | None:
    bucket, share = kit.bucket(), kit.share()
    if bucket is not None:
        return {"form": "tokens", "per_success": bucket.per_success, "cap": bucket.cap, "start": kit.start}
    if share is not None and kit.budget_rule is not None:
        window = kit.budget_rule.window
        return {"form": "share", "max_ratio": share.max_ratio, "window": window, "start": kit.start}
    return None


def _gate(settings: Settings) -> dict[str, Any] | None:
    gate = settings.gate
    if gate is None:
        return None
    if gate.throttle_k is not None:
        return {"form": "throttle", "k": gate.throttle_k, "window": gate.throttle_window}
    return {"form": "adaptive", "ceiling": gate.ceiling, "floor": gate.floor}


def _breaker(kit: Kit) -> dict[str, Any] | None:
    if kit.breaker_rule is None:
        return None
    return {**asdict(kit.breaker_rule), "window": kit.window, "lease": kit.lease}


def _fallback(fallback: Fallback) -> dict[str, Any]:
    if fallback.function is not None:
        return {"form": "function", "function": operation_name(fallback.function)}
    if fallback.to is not None:
        return {"form": "dependency", "to": fallback.to.name}
    if fallback.last_good is not None:
        return {"form": "last good value", "oldest": fallback.last_good}
    return {"form": "value", "value": _short(fallback.value)}


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be printed is still a value
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _keys(guard: Guard) -> str:
    if guard.has_key:
        return f"this one: {_short(guard.key)}"
    if guard.settings.key is None:
        return "none: one state for all calls"
    return f"by {operation_name(guard.settings.key)}, each with a state of its own"


# What comes of them


def _exhaustion(told: str, fallback: Fallback | None) -> str:
    if fallback is None:
        return told
    given = _fallback(fallback)
    if "oldest" in given:
        return f"the last good value is returned, if it is at most {human(given['oldest'])} old; else {told}"
    form = given.pop("form")
    return f"the fallback answers: {form} {', '.join(given.values())}"


def _worst_case(plan: dict[str, Any], settings: Settings, retry: Retry) -> tuple[float | None, str]:
    """How long a call can take: as its Retry alone, longer by the waits for the gate and the limits.

    None of them begins after the deadline, and the end of the whole call interrupts async ones.
    """
    worst, note = plan["worst_case_elapsed"], plan["worst_case_note"]
    waits = settings.rate_limit is not None or settings.bulkhead is not None
    if waits or (settings.gate is not None and retry.attempts != 1):
        deadline = plan["deadline"]
        worst = None if deadline is None else deadline + (retry.attempt_timeout or 0.0)
        note = "" if retry.attempt_timeout is not None else ", plus the time the attempts take (no timeout)"
        note += " (nothing begins after the deadline)"
    total = None if settings.timeouts is None else settings.timeouts.total
    if total is not None and (worst is None or worst > total or retry.attempt_timeout is None):
        return total, " (async; a plain function ends its attempt)"
    return worst, note


def _amplified(settings: Settings, retry: Retry, kit: Kit) -> dict[str, Any]:
    """Attempts on the wire per call: at worst, and in the long run under the budget."""
    copies = 1 if settings.hedge is None else 1 + settings.hedge.max_hedges
    worst = None if retry.attempts is None else retry.attempts * copies
    rule, budgeted = kit.budget_rule, None
    if rule is not None:
        bucket = kit.bucket()
        extra = rule.max_ratio if bucket is None else bucket.per_success
        budgeted = 1.0 if extra is None else 1.0 + extra
        budgeted = budgeted if worst is None else min(float(worst), budgeted)
    return {"worst": worst, "budgeted": budgeted}


def _warnings(base: Explanation, guard: Guard) -> list[Warning_]:
    settings, retry = guard.settings, guard.retry
    found = [one for one in base.warnings if one.code != "no-budget"]
    repeats = retry.attempts != 1 or settings.hedge is not None
    if settings.budget is None and repeats:
        found.append(
            Warning_("no-budget", "nothing bounds the retries of all calls: in an outage they multiply")
        )
    breaker = settings.breaker
    if breaker is not None and settings.key is None and not guard.has_key:
        seen = sorted(guard.core.hosts)
        hosts = f" ({', '.join(seen)} so far)" if len(seen) > 1 else ""
        found.append(
            Warning_(
                "one-breaker", f"if it reaches several hosts{hosts}, one that is down closes all; give key="
            )
        )
    if breaker is not None and breaker.failures is not None:
        attempts = retry.attempts
        if attempts is None or breaker.failures < attempts:
            text = f"{breaker.failures} failures open the breaker: one call alone can do it; allow more"
            found.append(Warning_("low-breaker", text))
    gate, attempt = settings.gate, settings.attempt_timeout
    if gate is not None and gate.throttle_k is not None and attempt and gate.throttle_window < 2 * attempt:
        text = f"answers may come after the throttle's window of {gate.throttle_window:g} s: give it more"
        found.append(Warning_("short-throttle", text))
    if settings.hedge is not None and retry.safety is None:
        found.append(
            Warning_("hedge-safety", "a hedge sends operations twice; say that they may be: safety=")
        )
    if settings.fallback is not None and retry.on_exhausted is None:
        found.append(
            Warning_("silent-exhaustion", "the fallback hides that calls fail; on_exhausted= tells somebody")
        )
    return found


# As text


def _timeouts(bounds: dict[str, Any]) -> str:
    words = [
        f"{name} {'none' if bounds[name] is None else human(bounds[name])}"
        for name in ("connect", "read", "attempt", "total")
    ]
    return ", ".join(words) + ("; attempts follow the latencies" if bounds["adaptive"] else "")


def _words(part: dict[str, Any] | None) -> str:
    if part is None:
        return "off"
    shown = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in part.items()
        if value is not None and name != "form"
    ]
    return (f"{part['form']}: " if "form" in part else "") + ", ".join(shown)


def _worst(plan: dict[str, Any]) -> str:
    worst = plan["worst_case_elapsed"]
    return ("unbounded" if worst is None else human(worst)) + str(plan["worst_case_note"])


def _amplification(amplification: dict[str, Any]) -> str:
    worst, budgeted = amplification["worst"], amplification["budgeted"]
    words = f"{'unbounded' if worst is None else worst} x in the worst case"
    if budgeted is None:
        return f"{words}; no budget bounds it"
    return f"{words}; the budget holds it at {budgeted:.3g} x in the long run"
