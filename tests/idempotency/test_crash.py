"""A program that is killed between its claim and its answer finds its key again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perdure.idempotency import ClientStore, InProgress, Keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://api.example.com/charges"
PROGRAM = """
import sys
from perdure.idempotency import ClientStore, Keys
claim = Keys(store=ClientStore(sys.argv[1])).claim("POST", sys.argv[2], {}, b"17 EUR", operation="order-17")
print(claim.key, claim.resumed, flush=True)
sys.stdin.read()
claim.done(201)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "keys.sqlite")


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        child.kill()
        child.communicate(timeout=30)


def start(path: str, children: list[subprocess.Popen[str]]) -> tuple[subprocess.Popen[str], str, str]:
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, path, URL], stdin=pipe, stdout=pipe, text=True)
    children.append(child)
    assert child.stdout is not None
    key, resumed = child.stdout.readline().split()
    return child, key, resumed


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
def test_i71_after_kill_9_the_restarted_program_sends_the_same_key(
    path: str, children: list[subprocess.Popen[str]]
) -> None:
    child, key, resumed = start(path, children)
    assert resumed == "False"
    with ClientStore(path) as store:
        (pending,) = store.pending()
        assert (pending.key, pending.operation, pending.in_progress) == (key, "order-17", True)
        with pytest.raises(InProgress):  # B107, between processes
            Keys(store=store).claim("POST", URL, {}, b"17 EUR", operation="order-17")

        child.send_signal(signal.SIGKILL)
        # It has ended, but nobody has asked how: a zombie is gone as well.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        _, again, resumed = start(path, children)
        assert (again, resumed) == (key, "True")
        assert child.wait(30) == -signal.SIGKILL


MANY = """
import sys
from perdure.idempotency import ClientStore, Keys
keys = Keys(store=ClientStore(sys.argv[1]))
for number in range(100_000):
    claim = keys.claim("POST", sys.argv[2], operation=f"order-{number}")
    print(claim.key, flush=True)
    if number % 2:
        claim.done(201)
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
def test_i71_killed_at_any_moment_every_key_that_was_given_out_is_in_the_file(
    path: str, children: list[subprocess.Popen[str]]
) -> None:
    child = subprocess.Popen([sys.executable, "-c", MANY, path, URL], stdout=subprocess.PIPE, text=True)
    children.append(child)
    assert child.stdout is not None
    given = [child.stdout.readline().strip() for _ in range(20)]
    child.send_signal(signal.SIGKILL)
    given += child.stdout.read().split()
    child.wait(30)
    with ClientStore(path) as store:
        unfinished = {one.key for one in store.pending()}
        assert set(given[:-1:2]) <= unfinished  # the even ones never ended
        keys = Keys(store=store)
        for number, key in enumerate(given[:20]):
            claim = keys.claim("POST", URL, operation=f"order-{number}")
            assert claim is not None
            assert (claim.key, claim.resumed) == (key, True)


def test_a_program_that_goes_on_is_heard(path: str, children: list[subprocess.Popen[str]]) -> None:
    child, key, _ = start(path, children)
    child.communicate("", timeout=30)
    assert child.returncode == 0
    with ClientStore(path) as store:
        assert store.pending() == []
        claim = Keys(store=store).claim("POST", URL, {}, b"17 EUR", operation="order-17")
        assert claim is not None
        assert (claim.key, claim.resumed) == (key, True)
