"""What runs on one machine share through a file: breakers, budgets of retries, locks.

Without the file a breaker and a budget let everything pass, with one warning: a command must not stay undone for
want of advice about it. A lock does not: a command that must run alone is not run beside another (``Trouble``).
"""

from __future__ import annotations

import time
from pathlib import Path

from perdure import clock
from perdure.cli.record import Refusal
from perdure.cli.shared.breaker import SharedBreaker
from perdure.cli.shared.budget import SharedBudget
from perdure.cli.shared.lock import Heartbeat, Lock
from perdure.cli.shared.store import Store, Trouble, default_path
from perdure.cli.wording import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TypeVar

    from perdure.cli.record import Request, Sharing
    from perdure.cli.report import JsonFile
    from perdure.cli.screen import Screen
    from perdure.cli.shared.lock import Held
    from perdure.cli.shared.store import Transaction

    T = TypeVar("T")

__all__ = ["Shared", "describe"]

FIRST_LOOK, LONGEST_LOOK = 0.02, 1.0
"""Seconds between two looks at a lock that is held: they grow, for hundreds may wait."""


class Shared:
    """One run's share in the state of all; enter it around the run. One thread uses it.

    In this order: ``enter``, then for each attempt ``ask`` and ``after``; leaving gives everything back.
    """

    def __init__(
        self, request: Request, sharing: Sharing, screen: Screen, log: JsonFile | None = None
    ) -> None:
        self._sharing = sharing
        self._screen = screen
        self._log = log
        policy = request.policy
        timeout = None if policy.attempt_timeout is None else policy.attempt_timeout + request.grace
        self._path = Path(sharing.state) if sharing.state is not None else default_path()
        self._store = Store(self._path)
        self._breaker = (
            SharedBreaker(sharing.breaker, sharing.failures, sharing.cooldown, timeout)
            if sharing.breaker
            else None
        )
        self._budget = SharedBudget(sharing.budget, request.allowed) if sharing.budget else None
        self._lock = Lock(sharing.lock, request.command[0]) if sharing.lock else None
        self._heartbeat: Heartbeat | None = None
        self._paid = False  # for a retry that was not begun yet
        self._unprotected = False
        self._sleep = clock.sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is still held: the lock, a probe's place, the price of a retry that was not made."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        with self._store:
            try:
                self._give_back()
            except Trouble:
                pass  # whoever looks sees that this process is gone

    def enter(self, longest: float) -> Refusal | None:
        """Take the lock, waiting as long as was asked for but not over ``longest``. Raises Trouble."""
        lock = self._lock
        if lock is None:
            return None
        end, pause, told = time.monotonic() + min(self._sharing.lock_wait, longest), FIRST_LOOK, False
        while (held := self._take(lock)) is not None:
            left = end - time.monotonic()
            if left <= 0:
                return Refusal("lock", f"lock {lock.name!r} is held by {describe(held)}")
            if not told:
                self._screen.line(f"perdure: waiting for lock {lock.name!r}, held by {describe(held)}")
                told = True
            self._sleep(min(left, pause * (0.5 + clock.random())))
            pause = min(LONGEST_LOOK, pause * 1.5)
        self._heartbeat = Heartbeat(self._path, lock)
        self._heartbeat.start()
        return None

    def ask(self) -> Refusal | None:
        """Before an attempt: the reason why it may not be made, if there is one."""
        if self._lock is not None and self._heartbeat is not None and self._heartbeat.lost:
            return Refusal("lock", f"lock {self._lock.name!r} was taken away in the meantime")
        breaker = self._breaker
        refused = None if breaker is None else self._openly(breaker.ask)
        self._tell_changes()
        if breaker is None or refused is None:
            self._paid = False
            return None
        state, after = refused
        self._event("breaker.rejected", breaker=breaker.name, retry_after=round(after, 3))
        return Refusal("breaker", _why_refused(breaker.name, state, after), after)

    def after(self, meaning: str, *, paid_in: bool, retry: bool) -> str:
        """After an attempt: report what it means; says why no ``retry`` may follow, if that is so.

        ``meaning`` as for ``SharedBreaker.report``; ``paid_in``: it is a success that funds retries.
        """
        breaker, budget = self._breaker, self._budget
        wanted = retry and budget is not None
        report = breaker is not None and breaker.is_out
        if not (report or wanted or (paid_in and budget is not None)):
            return ""

        def settle(tx: Transaction) -> bool:
            if breaker is not None and report:
                breaker.report(tx, meaning)
            if budget is not None and paid_in:
                budget.deposit(tx)
            return budget is None or not wanted or budget.withdraw(tx)

        allowed = self._openly(settle)
        self._tell_changes()
        self._paid = wanted and allowed is True
        if allowed is not False or budget is None:
            return ""
        self._event("budget.empty", budget=budget.name)
        return f"budget {budget.name!r} has no retry left; successes fill it"

    # The file

    def _take(self, lock: Lock) -> Held | None:
        with self._store.changing() as tx:
            return lock.take(tx)

    def _openly(self, step: Callable[[Transaction], T]) -> T | None:
        """Do a step of breaker or budget; None where the file does not let us, which is said once."""
        if self._unprotected:
            return None
        try:
            with self._store.changing() as tx:
                return step(tx)
        except Trouble as trouble:
            self._unprotected = True
            options = " and ".join(
                option
                for option, there in (("--breaker", self._breaker), ("--budget", self._budget))
                if there is not None
            )
            self._screen.line(f"perdure: {trouble}; goes on without {options}")
            self._event("state.unavailable", why=str(trouble))
            return None

    def _give_back(self) -> None:
        breaker, budget, lock = self._breaker, self._budget, self._lock
        out = breaker is not None and breaker.is_out
        if not (out or self._paid or lock is not None) or (lock is None and self._unprotected):
            return
        with self._store.changing() as tx:
            if lock is not None:
                lock.release(tx)
            if breaker is not None and out:
                breaker.report(tx, "nothing")
            if budget is not None and self._paid:
                budget.refund(tx)

    # Telling

    def _tell_changes(self) -> None:
        if self._breaker is None:
            return
        name, changes = self._breaker.name, self._breaker.changes
        for event, fields in changes:
            self._event(event, breaker=name, **fields)
            if event == "breaker.opened":
                delay = fields.get("delay")
                rest = f" for {human(delay)}" if isinstance(delay, float) else ""
                self._screen.line(f"perdure: breaker {name!r} opened{rest}")
            elif event == "breaker.closed":
                self._screen.line(f"perdure: breaker {name!r} closed")
        changes.clear()

    def _event(self, name: str, **fields: object) -> None:
        if self._log is not None:
            self._log.event(name, **fields)


def describe(held: Held) -> str:
    """Who holds a lock: "process 123 (backup.sh) for 5 min"."""
    who = "somebody unknown" if held.pid is None else f"process {held.pid}"
    program = f" ({held.program!r})" if held.program else ""
    return f"{who}{program} for {human(max(0.0, clock.wall() - held.since))}"


def _why_refused(name: str, state: str, after: float) -> str:
    if state == "open":
        return f"breaker {name!r} is open; ask again in {human(after)}"
    return (
        f"breaker {name!r} is half open, and another run is finding out whether it may close; ask again when that "
        f"has ended, in {human(after)} at the latest"
    )
