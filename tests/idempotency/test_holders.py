"""Whether a call that took a key may still be going on, as far as the system tells."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perdure.idempotency import holders
from perdure.idempotency.holders import LEASE, LONGEST_CALL, Here, Hold, Holder, is_held

HERE = Here(1000.0, 500.0, "boot", 1, "77")


def held_by(**fields: object) -> bool:
    holder = Holder(*HERE._replace(pid=os.getpid(), started=""), "token")
    return is_held(holder._replace(**fields), HERE)


def test_nobody_holds_nothing() -> None:
    assert not held_by(token="")


def test_a_running_process_holds_until_it_has_been_silent_for_too_long() -> None:
    assert held_by()
    assert held_by(ticks=500.0 - LONGEST_CALL + 1)
    assert not held_by(ticks=500.0 - LONGEST_CALL)


def test_a_holder_from_before_the_start_of_the_machine_is_gone() -> None:
    assert not held_by(ticks=501.0)


@pytest.mark.parametrize("ago", [-LEASE, LEASE])
def test_a_holder_elsewhere_counts_for_a_lease_whichever_clock_is_ahead(ago: float) -> None:
    assert not held_by(boot="elsewhere", wall=1000.0 - ago)
    assert held_by(boot="elsewhere", wall=1000.0 - ago * 0.9)


@pytest.mark.skipif(os.name != "posix", reason="signal 0 is what is tested")
def test_without_a_file_of_processes_a_signal_tells() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert held_by(pid=child.pid)
    finally:
        child.communicate(b"\n", timeout=30)
    assert not held_by(pid=child.pid)
    assert not held_by(pid=2**70)
    assert held_by(pid=os.getppid())


@pytest.mark.skipif(sys.platform != "linux", reason="the start of a process is told there")
def test_a_number_that_was_given_out_again_is_another_process() -> None:
    started = holders._stat(os.getpid())[1]
    assert started
    assert held_by(started=started)
    assert not held_by(started=f"{started}0")
    assert not held_by(pid=2**30, started=started)


def test_in_this_process_the_hold_itself_tells() -> None:
    hold = Hold()
    here = Here.now()
    holder = Holder(*here, hold.token)
    assert is_held(holder, here)
    del hold
    assert not is_held(holder, here)


def test_where_the_start_of_the_machine_is_not_told_its_name_stands_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(holders, "open", closed, raising=False)
    monkeypatch.setattr(holders, "_known", {})
    monkeypatch.setattr(holders, "_starts", {})
    here = Here.now()
    assert here.boot
    assert here.started == ""
    assert Here.now().boot == here.boot
