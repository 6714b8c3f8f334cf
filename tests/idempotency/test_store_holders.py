"""One call at a time has a key: threads, processes, forked children, other machines."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from perdure.idempotency import ClientStore, InProgress, Keys
from perdure.idempotency.holders import LEASE, LONGEST_CALL
from perdure.testing import VirtualClock
from tests.idempotency.claims import claimed, rows

if TYPE_CHECKING:
    from pathlib import Path


def test_a_holder_on_another_machine_counts_as_alive_for_a_lease(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        first = claimed(keys, operation="a")
        with store._database.changing() as db:
            db.execute("UPDATE client_key SET boot = 'elsewhere'")
        clock.advance(LEASE - 1)
        with pytest.raises(InProgress):
            claimed(keys, operation="a")
        clock.advance(1)
        assert claimed(keys, operation="a").key == first.key


def test_a_call_that_never_ends_counts_as_gone_in_the_end(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        hung = claimed(keys, operation="a")
        clock.advance(LONGEST_CALL - 1)
        with pytest.raises(InProgress):
            claimed(keys, operation="a")
        clock.advance(1)
        after = claimed(keys, operation="a")
        assert hung.failed()  # too late: it holds nothing any more, and this is not its word to say
        assert rows(store) == [(after.key, "a", "open")]
        assert hung.key == after.key


def test_that_the_server_acted_is_true_whoever_says_it(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        hung = claimed(keys, operation="a")
        clock.advance(LONGEST_CALL)
        after = claimed(keys, operation="a")
        hung.done(200)
        assert [state for _, _, state in rows(store)] == ["done"]
        with pytest.raises(InProgress):
            claimed(keys, operation="a")
        after.unknown()
        assert [state for _, _, state in rows(store)] == ["done"]


def test_threads_share_a_store(store: ClientStore) -> None:
    keys = Keys(store=store)
    together = threading.Barrier(6)
    won: list[str] = []

    def call() -> None:
        together.wait(30)
        for number in range(5):
            try:
                claim = claimed(keys, operation=f"order-{number}")
            except InProgress:
                continue
            won.append(claim.key)
            claim.done(201)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(won)) == 5
    assert [state for _, _, state in rows(store)] == ["done"] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_uses_the_store_and_leaves_that_of_its_parent_alone(store: ClientStore) -> None:
    keys = Keys(store=store)
    first = claimed(keys, operation="of the parent")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - another process
        said = b"nothing"
        try:
            try:
                claimed(keys, operation="of the parent")
            except InProgress:
                said = claimed(keys, operation="of the child").key.encode()
        finally:
            os.write(writer, said)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    key = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    second = claimed(keys, operation="of the child")  # its holder has ended
    assert second.key == key
    first.done(200)
    assert {operation: state for _, operation, state in rows(store)} == {
        "of the parent": "done",
        "of the child": "open",
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("where", ["file", "memory"])
def test_a_lock_that_a_thread_held_at_the_fork_does_not_hold_up_the_child(
    store: ClientStore, where: str
) -> None:
    keys = Keys(store=store) if where == "file" else Keys()
    lock = store._database._lock if where == "file" else keys._store._lock  # type: ignore[attr-defined]
    claimed(keys).unknown()
    with lock:
        child = os.fork()
        if not child:  # pragma: no cover - another process
            status = 1
            try:
                claimed(keys).unknown()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    if where == "file":
        assert len(rows(store)) == 2


STORM = """
import sys
from perdure.idempotency import ClientStore, Keys
print("ready", flush=True)
sys.stdin.readline()
keys = Keys(store=ClientStore(sys.argv[1], patience=30))
for number in range(3):
    keys.claim("POST", "https://x/", operation=f"{sys.argv[2]} {number}").done(200)
"""


def test_many_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    path, pipe = str(tmp_path / "keys.sqlite"), subprocess.PIPE
    children = [
        subprocess.Popen([sys.executable, "-c", STORM, path, str(number)], stdin=pipe, stdout=pipe, text=True)
        for number in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=50)
    assert [child.returncode for child in children] == [0] * 4
    with ClientStore(path) as store:
        assert [state for _, _, state in rows(store)] == ["done"] * 12
