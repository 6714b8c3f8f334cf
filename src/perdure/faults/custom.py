"""The rules that users add: what they may be, and how they are asked."""

from __future__ import annotations

import sys

from perdure.faults.kinds import Fault, FaultKind, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Answer: TypeAlias = Fault | FaultKind | None
    Rule: TypeAlias = FaultKind | Fault | Callable[[BaseException], Answer]
    Step: TypeAlias = Fault | Callable[[BaseException], Fault | None]

__all__ = ["Registered", "checked_target", "name_of", "step_of"]


class Registered:
    """One user rule: its target, and the step made of it."""

    __slots__ = ("step", "target")

    def __init__(self, target: type[BaseException] | str, step: Step) -> None:
        self.target = target
        self.step = step

    def covers(self, cls: type) -> bool:
        """Whether the target is this very class; subclasses are reached through their bases."""
        target = self.target
        if not isinstance(target, str):
            return target is cls
        return target == name_of(cls) or _resolve(target) is cls


def name_of(cls: type) -> str:
    """Give the name that tables and rules know a class by."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _resolve(target: str) -> object:
    """Find the object a dotted name means among the loaded modules: a class may be known by a re-export."""
    module, _, name = target.rpartition(".")
    # Not getattr(): a module may import something, or fail, when asked for a name it does not have yet.
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


def checked_target(target: object) -> type[BaseException] | str:
    """Give `target` back when it can name a class; else a `ConfigError`."""
    if isinstance(target, str):
        if "." in target.strip("."):
            return target
    elif isinstance(target, type) and issubclass(target, BaseException):
        return target
    raise refusal(f'target must be an exception class or "module.QualName", got {target!r}')


def step_of(target: type[BaseException] | str, rule: object) -> Step:
    """Turn a user's rule into a step of the classifier; a `ConfigError` when it is none."""
    if isinstance(rule, Fault):
        return rule
    if isinstance(rule, FaultKind):
        return Fault(rule, None, f"registered for {target if isinstance(target, str) else name_of(target)}")
    from perdure.colour import is_coroutine_function

    if callable(rule) and not is_coroutine_function(rule):
        return _Guarded(rule)
    raise refusal(f"rule must be a FaultKind, a Fault or a plain function of the exception, got {rule!r}")


class _Guarded:
    """A user's function as a step: whatever it does, the classifier goes on."""

    __slots__ = ("complained", "rule")

    def __init__(self, rule: Callable[[BaseException], object]) -> None:
        self.rule = rule
        self.complained = False

    def __call__(self, exc: BaseException) -> Fault | None:
        try:
            answer = self.rule(exc)
        except Exception as error:  # noqa: BLE001 - the failure at hand matters more than a broken rule
            self._complain(f"raised {error!r}")
            return None
        if answer is None or isinstance(answer, Fault):
            return answer
        if isinstance(answer, FaultKind):
            return Fault(answer, None, "registered rule")
        self._complain(f"returned {answer!r}, not a FaultKind, a Fault or None")
        return None

    def _complain(self, what: str) -> None:
        if not self.complained:
            from warnings import warn

            self.complained = True
            warn(f"fault rule {self.rule!r} {what}; it is passed over", RuntimeWarning, stacklevel=2)
