from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import types
import warnings
from typing import Any

import pytest

from perdure.errors import ConfigError
from perdure.faults import Fault, FaultKind, classify, permanent, register, reset, rules


class AppError(Exception):
    pass


class PaymentError(AppError):
    pass


class Outer:
    class InnerError(Exception):
        pass


HERE = AppError.__module__


@pytest.mark.parametrize("target", [AppError, f"{HERE}.AppError"])
def test_a_rule_covers_a_class_and_its_subclasses_until_it_is_removed(target: Any) -> None:
    assert classify(AppError()).kind is FaultKind.PERMANENT
    remove = register(target, FaultKind.TRANSIENT)
    assert classify(AppError()).kind is classify(PaymentError()).kind is FaultKind.TRANSIENT
    assert f"{HERE}.AppError" in classify(AppError()).why
    remove()
    remove()
    assert classify(PaymentError()) == Fault(FaultKind.PERMANENT, None, "unknown exception type")


def test_a_nested_class_is_named_by_its_qualified_name() -> None:
    register(f"{HERE}.Outer.InnerError", FaultKind.STALE)
    assert classify(Outer.InnerError()).kind is FaultKind.STALE


def test_a_class_is_found_by_the_module_that_exports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = types.ModuleType("shop")
    shop.Closed = AppError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", shop)
    register("shop.Closed", FaultKind.TRANSIENT)
    assert classify(PaymentError()).kind is FaultKind.TRANSIENT


def test_a_lazy_module_is_not_asked_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = types.ModuleType("shop")
    asked: list[str] = []
    shop.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "shop", shop)
    register("shop.Closed", FaultKind.TRANSIENT)
    classify(AppError())
    assert asked == []


def test_the_most_specific_class_is_asked_first_then_the_newest_rule() -> None:
    register(PaymentError, FaultKind.STALE)
    register(AppError, FaultKind.TRANSIENT)
    assert classify(PaymentError()).kind is FaultKind.STALE
    register(PaymentError, FaultKind.NEUTRAL)
    assert classify(PaymentError()).kind is FaultKind.NEUTRAL


def test_rules_outrank_the_tables_and_verdicts_outrank_rules() -> None:
    register(OSError, FaultKind.TRANSIENT)
    assert classify(FileNotFoundError()).kind is FaultKind.TRANSIENT
    register(TypeError, FaultKind.TRANSIENT)
    assert classify(TypeError()).kind is FaultKind.TRANSIENT
    assert classify(permanent(TypeError())).kind is FaultKind.PERMANENT


def test_a_function_answers_with_a_fault_a_kind_or_none_for_go_on() -> None:
    answers: list[Fault | FaultKind | None] = [
        Fault(FaultKind.THROTTLED, 7.0, "mine"),
        FaultKind.STALE,
        None,
    ]
    register(AppError, FaultKind.NEUTRAL)
    register(PaymentError, lambda _: answers.pop(0))
    assert classify(PaymentError()) == Fault(FaultKind.THROTTLED, 7.0, "mine")
    assert classify(PaymentError()).kind is FaultKind.STALE
    assert classify(PaymentError()).kind is FaultKind.NEUTRAL
    assert answers == []


def test_a_function_is_asked_once_per_classification() -> None:
    asked: list[BaseException] = []
    register(AppError, asked.append)
    exc = AppError()
    classify(exc)
    classify(exc)
    assert asked == [exc, exc]


def raises(_: BaseException) -> None:
    raise LookupError("rule")


@pytest.mark.parametrize(
    ("rule", "said"), [(raises, "raised LookupError"), (lambda _: True, "returned True")]
)
def test_a_broken_function_is_reported_once_and_passed_over(rule: Any, said: str) -> None:
    register(ConnectionRefusedError, rule)
    with pytest.warns(RuntimeWarning, match=said):
        assert classify(ConnectionRefusedError()).kind is FaultKind.TRANSIENT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert classify(ConnectionRefusedError()).kind is FaultKind.TRANSIENT


def test_an_interrupt_in_a_function_passes() -> None:
    def interrupted(_: BaseException) -> None:
        raise KeyboardInterrupt

    register(AppError, interrupted)
    with pytest.raises(KeyboardInterrupt):
        classify(AppError())


async def coroutine_rule(_: BaseException) -> None: ...


@pytest.mark.parametrize("rule", ["transient", None, 3, coroutine_rule])
def test_a_rule_that_cannot_work_is_refused(rule: Any) -> None:
    with pytest.raises(ConfigError, match="rule must be a FaultKind, a Fault or a plain function"):
        register(AppError, rule)


@pytest.mark.parametrize("target", ["AppError", "", ".", int, AppError(), None])
def test_a_target_that_names_no_class_is_refused(target: Any) -> None:
    with pytest.raises(ConfigError, match="target must be an exception class or"):
        register(target, FaultKind.TRANSIENT)


def test_reset_brings_back_what_was_shipped() -> None:
    register(ValueError, FaultKind.TRANSIENT)
    register(f"{HERE}.AppError", FaultKind.TRANSIENT)
    reset()
    assert classify(ValueError()) == Fault(FaultKind.PERMANENT, None, "bug: ValueError")
    assert classify(AppError()).kind is FaultKind.PERMANENT


@pytest.mark.parametrize("exc", [BaseException(), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_is_no_exception_is_neutral(exc: BaseException) -> None:
    assert classify(exc).kind is FaultKind.NEUTRAL


def test_cancellation_is_neutral() -> None:
    assert classify(asyncio.CancelledError()).kind is FaultKind.NEUTRAL
    assert classify(BaseExceptionGroup("x", [asyncio.CancelledError()])).kind is FaultKind.NEUTRAL


@pytest.mark.parametrize("thing", [None, 3, "text", object(), ValueError, {"status": 503}])
def test_classify_takes_anything_and_gives_a_fault(thing: object) -> None:
    assert classify(thing) == Fault(FaultKind.PERMANENT, None, "neither an exception nor a response")


class HostileError(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


def test_classify_never_raises() -> None:
    assert classify(HostileError()) == Fault(FaultKind.PERMANENT, None, "reading it raised ZeroDivisionError")


# -- what lies under an unknown exception --------------------------------------------------------------


def under(top: Exception, below: BaseException, *, explicit: bool) -> Exception:
    if explicit:
        top.__cause__ = below
    else:
        top.__context__ = below
    return top


@pytest.mark.parametrize("explicit", [True, False])
def test_an_unknown_class_is_what_lies_under_it(explicit: bool) -> None:
    assert (
        classify(under(AppError(), ConnectionRefusedError(), explicit=explicit)).kind is FaultKind.TRANSIENT
    )
    two = under(AppError(), under(AppError(), TimeoutError(), explicit=explicit), explicit=explicit)
    assert classify(two).kind is FaultKind.AMBIGUOUS


def test_a_suppressed_context_says_nothing() -> None:
    exc = under(AppError(), ConnectionRefusedError(), explicit=False)
    exc.__suppress_context__ = True
    assert classify(exc).why == "unknown exception type"


def test_a_cancellation_counts_as_cause_but_not_as_context() -> None:
    cancelled = asyncio.CancelledError()
    assert classify(under(AppError(), cancelled, explicit=True)).kind is FaultKind.NEUTRAL
    assert classify(under(AppError(), cancelled, explicit=False)).why == "unknown exception type"
    cancelled.__context__ = ConnectionRefusedError()
    assert classify(under(AppError(), cancelled, explicit=False)).kind is FaultKind.TRANSIENT


def test_a_bug_type_counts_as_cause_but_is_skipped_as_context() -> None:
    lookup = under(KeyError(), ConnectionRefusedError(), explicit=False)
    assert classify(under(AppError(), lookup, explicit=True)) == classify(KeyError())
    assert classify(under(AppError(), lookup, explicit=False)).kind is FaultKind.TRANSIENT
    runtime = under(RuntimeError(), ConnectionRefusedError(), explicit=True)
    assert classify(under(AppError(), runtime, explicit=False)).kind is FaultKind.TRANSIENT


def test_a_known_class_is_not_looked_under() -> None:
    assert classify(under(ValueError(), ConnectionRefusedError(), explicit=True)).why == "bug: ValueError"
    assert classify(under(RuntimeError(), ConnectionRefusedError(), explicit=True)).why == "bug: RuntimeError"
    assert classify(under(FileNotFoundError(), TimeoutError(), explicit=True)).kind is FaultKind.PERMANENT


def test_a_rule_is_found_on_a_cause() -> None:
    register(PaymentError, Fault(FaultKind.THROTTLED, 3.0))
    assert classify(under(AppError(), PaymentError(), explicit=True)).hint == 3.0


# -- classes by inheritance ----------------------------------------------------------------------------


class OwnTimeoutError(AppError, TimeoutError):
    pass


class OwnRuntimeError(RuntimeError):
    pass


class TimeoutOfRuntimeError(OwnRuntimeError, TimeoutError):
    pass


class RefusedValueError(ConnectionRefusedError, ValueError):
    pass


def test_a_base_class_speaks_for_its_subclasses() -> None:
    assert classify(OwnTimeoutError()).kind is FaultKind.AMBIGUOUS


def test_deny_beats_allow() -> None:
    assert classify(RefusedValueError()) == Fault(FaultKind.PERMANENT, None, "bug: ValueError")


def test_a_library_that_derives_its_errors_from_runtime_error_is_no_bug() -> None:
    assert classify(OwnRuntimeError()).why == "unknown exception type"
    assert classify(under(OwnRuntimeError(), TimeoutError(), explicit=True)).kind is FaultKind.AMBIGUOUS
    assert classify(TimeoutOfRuntimeError()).kind is FaultKind.AMBIGUOUS


# -- the cache -----------------------------------------------------------------------------------------


def test_a_known_class_gives_one_shared_fault() -> None:
    assert classify(ValueError(1)) is classify(ValueError(2))
    assert classify(KeyError()) is classify(IndexError())


def test_the_cache_is_bounded() -> None:
    for number in range(rules.PLANS + 10):
        classify(type(f"Made{number}Error", (TimeoutError,), {})())
    assert 0 < len(rules._plans) <= rules.PLANS
    assert len(rules._constant) <= rules.PLANS


def test_a_rule_registered_while_a_plan_is_made_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rules._table_steps

    def slow(cls: type[BaseException]) -> Any:
        register(
            AppError, FaultKind.TRANSIENT
        )  # another thread, between reading the rules and storing the plan
        return made(cls)

    monkeypatch.setattr(rules, "_table_steps", slow)
    assert classify(AppError()).kind is FaultKind.PERMANENT
    monkeypatch.undo()
    assert classify(AppError()).kind is FaultKind.TRANSIENT


def test_threads_register_and_classify_together() -> None:
    start = threading.Barrier(8)
    seen: list[str] = []

    def work(number: int) -> None:
        cls = type(f"Thread{number}Error", (AppError,), {})
        start.wait(10)
        for _ in range(200):
            remove = register(cls, FaultKind.STALE)
            if classify(cls()).kind is not FaultKind.STALE:
                seen.append("rule not seen")
            remove()
            if classify(cls()).kind is not FaultKind.PERMANENT:
                seen.append("rule not removed")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == []
    assert rules._registered == ()


# -- what is loaded when -------------------------------------------------------------------------------

LOADS = """
import sys
from perdure import faults
tables = lambda: {name for name in sys.modules if name.startswith("perdure.faults.")} & {
    "perdure.faults." + table for table in set(faults.rules.TABLES.values())}
assert not tables(), tables()
heavy = {"asyncio", "logging", "socket", "ssl", "http.client", "sqlite3", "subprocess", "re", "datetime"}
before = set(sys.modules)
import perdure.faults
faults.classify(ValueError())
assert tables() == {"perdure.faults.builtin"}, tables()
assert not heavy & (set(sys.modules) - before), heavy & set(sys.modules)
import sqlite3
faults.classify(sqlite3.OperationalError())
assert tables() == {"perdure.faults.builtin", "perdure.faults.sqlite"}, tables()
"""


def test_a_table_is_loaded_when_a_class_of_its_package_first_fails() -> None:
    subprocess.run([sys.executable, "-c", LOADS], check=True, timeout=60)
