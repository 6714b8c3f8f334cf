"""Connections come back, whatever an attempt, a wait or a call ended with: B114, B115, B116.

Every session has a pool of one connection: one that is kept is missing in the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests

import perdure
from perdure import Retry
from perdure.integrations import requests as for_requests
from perdure.testing import no_waits
from tests.cases.http_sessions import ALL, Ask, Got, Leave, clients, dependency, play
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# httpx leaves a generator of its own behind when a body is given up half read, which trio remarks on.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'httpcore:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


LONG = 300_000
FAILURES = {
    "closed": wire.close(),
    "reset": wire.reset(),
    "garbage": wire.garbage(),
    "headers cut": wire.cut_headers(),
    "body short": wire.short_body(),
    "chunk cut": wire.cut_chunked(),
    "reset in the body": wire.reset_in_body(),
    "throttled": wire.answer(429, body=b"slow down"),
    "a long 503": wire.answer(503, body=b"x" * LONG),
    "a chunked 503": wire.answer(503, body=b"x" * 1000, chunked=True),
    "a 500 of unknown length": wire.answer(500, {"Connection": "close"}, b"x", keep=False),
}
ANSWERS = {"throttled", "a long 503", "a chunked 503", "a 500 of unknown length"}
MAKES = {"retry": Retry, "dependency": dependency}


@clients()
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_b115_after_failures_and_a_success(client: str, make: Any) -> None:
    steps = [step for failure in FAILURES.values() for step in (failure, failure, wire.answer(body=b"ok"))]
    with wire.serve(*steps) as server:
        played = play(client, make(), *[Ask(server.url)] * len(FAILURES), whole=True)
    assert played.taken == [0] * len(FAILURES)
    assert {
        name: (end.status, len(end.attempts)) for name, end in zip(FAILURES, played.ends, strict=True)
    } == dict.fromkeys(FAILURES, (200, 2))


@clients()
@pytest.mark.parametrize("raises", [False, True])
def test_b115_after_calls_that_were_given_up(client: str, raises: bool) -> None:
    steps = [step for failure in FAILURES.values() for step in (failure, failure)]
    with wire.serve(*steps, wire.answer(body=b"ok")) as server:
        played = play(
            client,
            dependency(retry=Retry(attempts=2)),
            *[Ask(server.url)] * (len(FAILURES) + 1),
            whole=True,
            raise_on_exhausted=raises,
        )
    assert played.taken == [0] * (len(FAILURES) + 1)
    *lost, well = played.ends
    assert well.body == b"ok"
    for name, end in zip(FAILURES, lost, strict=True):
        is_answer = name in ANSWERS and not raises
        assert isinstance(end, Got) == is_answer, name
        assert len(end.attempts if is_answer else perdure.attempts_of(end)) == 2, name


ENDINGS = {
    "not what is retried": Retry(on=perdure.FaultKind.STALE),
    "one attempt": Retry(attempts=1),
    "no time for the wait": Retry(deadline=1, backoff=perdure.Constant(2)),
}


@clients()
def test_b115_after_calls_that_ended_at_the_first_failure(client: str) -> None:
    for why, policy in ENDINGS.items():
        with wire.serve(*FAILURES.values(), wire.answer(body=b"ok")) as server:
            played = play(client, policy, *[Ask(server.url)] * (len(FAILURES) + 1), whole=True)
        assert played.taken == [0] * (len(FAILURES) + 1), why
        assert played.ends[-1].body == b"ok", why
        assert len(server.requests) == len(FAILURES) + 1, why


@clients()
def test_b115_after_timeouts(client: str) -> None:
    steps = [wire.hang(), wire.hang_in_body(), wire.answer(body=b"ok")]
    policy = (
        Retry(attempt_timeout=0.1) if client == "aiohttp" else Retry()
    )  # its timeouts are those of a call
    with wire.serve(*steps) as server:
        timeout = 5 if client == "aiohttp" else 0.1
        played = play(client, policy, Ask(server.url), Ask(server.url), whole=True, timeout=timeout)
    assert (played.statuses, played.taken) == ([200, 200], [0, 0])


@clients()
def test_b115_after_a_users_function_that_raises(client: str) -> None:
    """What it raises is logged, and the answer counts; out of `validate` it is the failure of an attempt."""
    for part, sent in (("validate", 3), ("content", 2), ("key", 2), ("reject", 2)):
        policy = Retry(reject=raising(RuntimeError)) if part == "reject" else dependency()
        options = {} if part == "reject" else {part: raising(RuntimeError)}
        with wire.serve(wire.answer(body=b"x" * LONG)) as server:
            played = play(client, policy, Ask(server.url), Ask(server.url), **options)
        assert (played.statuses, played.taken) == ([200, 200], [0, 0]), part
        assert len(server.requests) == sent, part


@clients()
def test_b115_after_an_exit_in_a_users_function(client: str) -> None:
    for part in ("validate", "content", "key"):
        with wire.serve(wire.answer(body=b"x" * LONG)) as server:
            asks = [Ask(server.url), Ask(server.url)]
            played = play(client, dependency(), *asks, **{part: raising(Leave)})
        assert played.taken == [0, 0], part
        assert type(played.ends[0]) is Leave, part
        assert played.statuses[1] == 200, part


@pytest.mark.parametrize("part", ["validate", "content"])
def test_b115_after_an_exit_while_a_stream_is_looked_at(part: str) -> None:
    """The session of requests has not read it, so nobody else would let go of it."""
    inner = requests.adapters.HTTPAdapter(pool_maxsize=1, pool_block=True)
    with wire.serve(wire.answer(body=b"x" * LONG)) as server, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", for_requests.Adapter(Retry(), inner, **{part: raising(Leave)}))
        with pytest.raises(Leave):
            session.get(server.url, stream=True, timeout=5)
        (pool,) = [inner.poolmanager.pools[key] for key in inner.poolmanager.pools.keys()]  # noqa: SIM118
        assert pool.pool.qsize() == 1


def raising(error: type[BaseException]) -> Callable[[Any], Any]:
    """A function that raises when it is first called, and has nothing to say after that."""
    calls: list[Any] = []

    def asked(given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise error("in a function")
        return None

    return asked


@clients(*(name for name in ALL if name.startswith("httpx")))
def test_b114_after_responses_that_were_rejected(client: str) -> None:
    bad = wire.answer(200, {"X-Stale": "1"}, b"x" * LONG)
    with wire.serve(bad, bad, wire.answer(body=b"ok")) as server:
        policy = Retry(attempts=3, reject=lambda response: response.headers.get("x-stale") == "1")
        played = play(client, policy, Ask(server.url), timeout=0.1)
    assert (played.statuses, played.taken) == ([200], [0])


@clients()
def test_b114_answers_that_a_validator_refused(client: str) -> None:
    bad = wire.answer(body=b"x" * LONG)
    with wire.serve(bad, bad, wire.answer(body=b"ok"), wire.answer(body=b"ok")) as server:
        played = play(
            client, Retry(), Ask(server.url), Ask(server.url), validate=lambda reply: reply.body == b"ok"
        )
    assert (played.statuses, played.taken) == ([200, 200], [0, 0])


@clients()
def test_b116_a_response_knows_its_request(client: str) -> None:
    """pydantic-ai#2656: raise_for_status() failed for want of it, in a hook and after the call."""
    asked: list[Any] = []

    def is_bad(response: Any) -> bool:
        asked.append(response)
        return False

    policy = Retry(attempts=2, reject=is_bad)
    with wire.serve(wire.answer(404), wire.answer(503)) as server:
        played = play(client, policy, Ask(server.url), Ask(server.url))
    for response in [*asked, *(end.response for end in played.ends)]:
        if client == "urllib3":
            assert response.status >= 400
            continue
        with pytest.raises(Exception, match=r"404|503") as caught:
            response.raise_for_status()
        assert not isinstance(caught.value, RuntimeError)
