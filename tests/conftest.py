"""Settings for every test; what a test needs beyond them it takes from perdure.testing."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A slow machine is not a bug: no per-example deadline. A failing example prints what reproduces it.
settings.register_profile("here", deadline=None, max_examples=50, print_blob=True)
# On a fresh machine there is no database of earlier failures, and one that is filled there is thrown away.
settings.register_profile("ci", settings.get_profile("here"), max_examples=100, database=None)
# For a long look at one property: HYPOTHESIS_PROFILE=long make test ARGS="tests/... -k name --timeout=0"
settings.register_profile(
    "long", settings.get_profile("here"), max_examples=5000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "here"))
