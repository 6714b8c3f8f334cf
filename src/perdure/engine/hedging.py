"""Hedged attempts of plain functions: each copy runs in a thread, as nothing else can be waited for.

The first success wins. What lost cannot be stopped: it runs on, keeps its places until it really ends, and its
result is dropped.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from contextvars import copy_context

from perdure import clock
from perdure.colour import discard, is_awaitable
from perdure.engine import copies, frames, responses, sync
from perdure.engine.queueing import Pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.engine.attempts import Passage
    from perdure.engine.guarded import GuardedRun


class _Copy:
    """One copy: its place, and what came of it."""

    __slots__ = ("error", "is_over", "passage", "value")

    def __init__(self, passage: Passage | None) -> None:
        self.passage = passage
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False


class _Race:
    """The copies of one attempt, in threads."""

    def __init__(self, run: GuardedRun) -> None:
        self.call = run
        self.lock = allocate_lock()
        self.copies: list[_Copy] = []
        self.pause: Pause | None = None
        self.is_decided = False

    def run(self, delay: float) -> Any:
        """Race them; the value of the first success, or else the error of the first."""
        run = self.call
        try:
            first = self._start(run.passage)
        except RuntimeError:  # no thread can be started: too many, or the interpreter ends
            return _once(run)
        run.passage = None  # each copy has its own now
        may_launch = True
        try:
            while True:
                winner = self._over(delay if may_launch else float("inf"))
                if winner is not None:
                    return self._decide(winner, first)
                if may_launch and not first.is_over:
                    passage = copies.launch(run, len(self.copies))
                    may_launch = passage is not None and self._send(passage)
        finally:
            self._give_up()

    def _start(self, passage: Passage | None) -> _Copy:
        one = _Copy(passage)
        context = copy_context()
        self.copies.append(one)
        try:
            start_new_thread(lambda: context.run(_run_copy, self.call, self, one), ())
        except BaseException:
            self.copies.remove(one)
            raise
        return one

    def _send(self, passage: Passage) -> bool:
        """Start a copy; False where the system has no thread for it: the attempt goes on alone."""
        try:
            self._start(passage)
        except RuntimeError:
            copies.unsent(self.call, passage)
            return False
        return True

    def _over(self, limit: float) -> _Copy | None:
        """Wait until the race is decided, or for so long; gives who decides it."""
        self.pause = pause = Pause(limit)
        if (decided := self._decided()) is None:
            if clock.is_closed():  # that ends waits, not what is under way
                pause.hold()
            else:
                pause.wait()
            decided = self._decided()
        self.pause = None
        return decided

    def _decided(self) -> _Copy | None:
        """The first that gave a value or what is nobody's failure; else, when all have failed, the first of all."""
        with self.lock:
            over = [one for one in self.copies if one.is_over]
            winner = next((one for one in over if not isinstance(one.error, Exception)), None)
            if winner is None and len(over) == len(self.copies):
                return self.copies[0]
            return winner

    def _decide(self, chosen: _Copy, first: _Copy) -> Any:
        passage, chosen.passage = chosen.passage, None
        if passage is not None:
            if chosen is not first and chosen.error is None:
                copies.won(self.call, passage)
            else:
                self.call.passage = passage
        error = chosen.error
        if error is None:
            return chosen.value
        try:
            raise error
        finally:
            del error

    def _give_up(self) -> None:
        """Report what is over; what still runs reports itself when it ends."""
        with self.lock:
            self.is_decided = True
            over = [one for one in self.copies if one.is_over]
        for one in over:
            self.settle(one)

    def settle(self, one: _Copy) -> None:
        """Report a copy that decided nothing, once."""
        with self.lock:
            passage, one.passage = one.passage, None
        if passage is not None:
            if is_awaitable(one.value):  # of a function that looked sync: nobody will await this one
                discard(one.value)
            responses.drop(one.value if one.error is None else one.error)
            copies.settle(self.call, passage, one.error, is_over=True)
        one.error = None

    def ended(self, one: _Copy) -> None:
        """A thread is done with its copy."""
        with self.lock:
            one.is_over = True
            late, pause = self.is_decided, self.pause
        if late:
            self.settle(one)
        elif pause is not None:
            pause.wake()


def attempt(run: GuardedRun) -> Any:
    """One attempt, with copies of it where it takes long."""
    delay = copies.delay(run)
    if delay is None:
        return _once(run)
    return _Race(run).run(delay)


def _once(run: GuardedRun) -> Any:
    if run.policy.is_plain:
        return run.fn(*run.args, **run.kwargs)
    return sync.special(run, run.fn, *run.args, **run.kwargs)


def _run_copy(run: GuardedRun, race: _Race, one: _Copy) -> None:
    try:
        one.value = _once(run)
    except BaseException as error:  # noqa: BLE001 - it goes to the thread that waits
        one.error = error
    finally:
        race.ended(one)


frames.drives(_run_copy)
