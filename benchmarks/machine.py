"""What the figures were measured on, without anything that tells where on a disk it lies."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe(core: int | None) -> dict[str, Any]:
    """The interpreter, how it was built, the machine, its load now and the core used."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "optimised_build": optimised_build(),
        "gil": sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "pinned_to_core": core,
        "load_before": load(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def optimised_build() -> dict[str, bool]:
    """Whether the interpreter was built with profile-guided and with link-time optimisation."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    flags = sysconfig.get_config_var("PY_CORE_CFLAGS") or ""
    return {
        "pgo": "--enable-optimizations" in arguments or "-fprofile-use" in flags,
        "lto": "--with-lto" in arguments or "-flto" in flags,
    }


def cpu_model() -> str:
    """The processor's own name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def load() -> list[float]:
    """The load averages of the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]
