"""Policies with a name: start from one of these and ``replace()`` what differs.

===============  ========  ==========================  ========  ===============
preset           attempts  backoff                     deadline  attempt timeout
===============  ========  ==========================  ========  ===============
``interactive``  3         0.1 s x 2^n up to 1 s       5 s       2 s
``background``   10        1 s x 2^n up to 60 s        900 s     none
``patient``      5         1 s x 2^n up to 30 s        120 s     30 s
===============  ========  ==========================  ========  ===============

``interactive`` is for calls that a person waits for, ``background`` for jobs, ``patient`` has the figures that
many specifications give. All use full jitter. They are immutable values.
"""

from __future__ import annotations

from perdure.core.backoff import Exponential
from perdure.policies import Retry

__all__ = ["RETRIES", "background", "interactive", "patient"]

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
"""The presets by name, as the command line takes them."""
