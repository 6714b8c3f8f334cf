"""Values with a name: policies and dependencies to start from, and the timeouts that suit well-known services.

===============  ========  ==========================  ========  ===============  ==============================
preset           attempts  backoff                     deadline  attempt timeout  of a dependency also
===============  ========  ==========================  ========  ===============  ==============================
``interactive``  3         0.1 s x 2^n up to 1 s       5 s       2 s              timeouts 2/2/5
``background``   10        1 s x 2^n up to 60 s        900 s     none
``patient``      5         1 s x 2^n up to 30 s        120 s     30 s             timeouts 5/30/120, a breaker,
                                                                                  a budget of a tenth
===============  ========  ==========================  ========  ===============  ==============================

``interactive`` is for calls that a person waits for, ``background`` for jobs, ``patient`` has the figures that
many specifications give. All use full jitter. They are immutable values::

    @presets.patient                                   # a policy: replace() what differs
    Dependency("payments", **presets.options("patient"))
    Dependency("models", **presets.options("patient", timeouts=presets.TIMEOUTS["anthropic"]))
"""

from __future__ import annotations

from perdure.core.backoff import Exponential
from perdure.errors import ConfigError
from perdure.parts import Breaker, Budget, Timeouts
from perdure.policies import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["RETRIES", "TIMEOUTS", "background", "interactive", "options", "patient"]

interactive: Retry = Retry(
    attempts=3, backoff=Exponential(base=0.1, cap=1), deadline=5, attempt_timeout=2, name="interactive"
)
background: Retry = Retry(attempts=10, backoff=Exponential(base=1, cap=60), deadline=900, name="background")
patient: Retry = Retry(
    attempts=5,
    backoff=Exponential(base=1, factor=2, cap=30),
    deadline=120,
    attempt_timeout=30,
    name="patient",
)

RETRIES: dict[str, Retry] = {"interactive": interactive, "background": background, "patient": patient}
"""The policies by name, as the command line and files take them."""

TIMEOUTS: dict[str, Timeouts] = {
    "ollama": Timeouts(connect=5, read=120, total=300),
    "anthropic": Timeouts(connect=10, read=60, total=120),
    "openai": Timeouts(connect=10, read=60, total=120),
    "model": Timeouts(connect=10, read=60, total=120),
    "postgresql": Timeouts(connect=5, read=30, total=60),
    "redis": Timeouts(connect=2, read=5, total=10),
    "external": Timeouts(connect=10, read=30, total=60),
}
"""Timeouts by service; ``model``: any other model API, ``external``: any other API of somebody else."""

CHOSEN = ("attempts", "backoff", "deadline", "attempt_timeout")
"""The fields of a Retry that a preset is about."""

_PARTS: dict[str, dict[str, Any]] = {
    "interactive": {"timeouts": Timeouts(connect=2, read=2, total=5)},
    "background": {},
    "patient": {
        "timeouts": Timeouts(connect=5, read=30, total=120),
        "breaker": Breaker(failures=5, cooldown=60, successes=2),
        "budget": Budget(max_ratio=0.1, window=60),
    },
}


def options(name: str, **changes: Any) -> dict[str, Any]:
    """The keyword arguments of a Dependency for a preset: ``Dependency("db", **presets.options("patient"))``.

    ``changes`` are other such arguments and go before the preset's. Where ``timeouts`` are given, they take the
    place of the preset's attempt timeout, and their ``total`` that of its deadline.

    Raises ConfigError for a name that is none. A new dict each time; thread and task safe.
    """
    preset = named("preset", name, RETRIES)
    retry = preset.replace(name=None)
    timeouts = changes.get("timeouts")
    if timeouts is not None:
        deadline = preset.deadline if timeouts.total is None else timeouts.total
        retry = retry.replace(attempt_timeout=None, deadline=deadline)
    return {"retry": retry, **_PARTS[name], **changes}


def named(field: str, name: Any, known: dict[str, Any]) -> Any:
    """The one of these presets with a name; ConfigError that names the nearest where there is none."""
    if not isinstance(name, str) or name not in known:
        raise ConfigError(f"{field} must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")
    return known[name]


def nearest(name: object, known: Iterable[str]) -> str:
    """``: did you mean ...?`` for a name that is close to one of the known; else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(str(name), list(known), n=1)
    return f": did you mean {found[0]}?" if found else ""
