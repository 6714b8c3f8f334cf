"""Policies by name: from ``perdure.toml`` or ``[tool.perdure]``, else the presets."""

from __future__ import annotations

from perdure.cli.options import Bad
from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.dependency import Dependency
    from perdure.policies import Retry

__all__ = ["dependencies", "find_policy", "load", "presets"]


def load(path: str | None) -> dict[str, Retry]:
    """The policies of a file (None: the one found from here upwards, if any). Raises Bad for a bad one."""
    from perdure.config import load_policies

    try:
        return load_policies(path)
    except ConfigError as error:
        raise Bad(str(error)) from None
    except OSError as error:
        raise Bad(f"{path}: {error.strerror}") from None


def dependencies(path: str | None) -> dict[str, Dependency]:
    """The dependencies of a file, found as for ``load``. Raises Bad for a bad one."""
    from perdure import config

    try:
        return config.load(path)
    except ConfigError as error:
        raise Bad(str(error)) from None
    except OSError as error:
        raise Bad(f"{path}: {error.strerror}") from None


def presets() -> dict[str, Retry]:
    """The presets by name."""
    from perdure.presets import RETRIES

    return RETRIES


def find_policy(name: str, path: str | None) -> Retry:
    """The policy of that name; those of the file go before the presets. Raises Bad where there is none."""
    known = {**presets(), **load(path)}
    if name not in known:
        raise Bad(f"--policy must be one of {', '.join(known)}, got {name!r}")
    return known[name]
