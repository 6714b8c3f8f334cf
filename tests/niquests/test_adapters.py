"""What niquests has and requests has not, under a policy: promises, HTTP/2, early responses, streams of events.

What both have is in tests/integration/test_clients.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import niquests
import pytest
from niquests.adapters import AsyncHTTPAdapter, HTTPAdapter
from niquests.adapters import TimeoutSauce as Timeout

import perdure
from perdure import Dependency, FaultKind, Retry
from perdure.integrations.niquests import Adapter, AsyncAdapter, async_session, session
from perdure.testing import no_waits
from tests.integration import wire
from tests.niquests import h2

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


def opened(policy: Any = None, **options: Any) -> niquests.Session:
    made = session(Retry() if policy is None else policy, **options)
    made.trust_env = False
    return made


# Promises


def test_a_multiplexed_session_gets_each_answer_in_turn_and_one_warning() -> None:
    with wire.serve(wire.answer(503), wire.answer(body=b"one"), wire.answer(body=b"two")) as server:
        with opened() as client:
            client.multiplexed = True
            with pytest.warns(RuntimeWarning, match="multiplexed=True"):
                one = client.get(server.url)
            two = client.get(server.url)
            client.gather()
            client.gather(one, two)
    assert (one.lazy, two.lazy) == (False, False)
    assert (one.content, two.content, len(perdure.attempts_of(one))) == (b"one", b"two", 1)


def test_promises_are_not_made_over_http2_either() -> None:
    with h2.serve(503, 200) as server, opened() as client:
        client.multiplexed, client.verify = True, server.ca_file
        with pytest.warns(RuntimeWarning, match="multiplexed=True"):
            answer = client.get(server.url)
    assert (answer.lazy, answer.content, len(server.streams)) == (False, b"answer 2", 2)


# HTTP/2


@pytest.mark.parametrize("last", [200, 429])
def test_requests_over_http2_are_sent_again_on_the_same_connection(last: int) -> None:
    with h2.serve(503, 503, last) as server, opened() as client:
        client.verify = server.ca_file
        answer = client.get(server.url)
        assert answer.status_code == last
        assert answer.http_version == 20
        assert len(perdure.attempts_of(answer)) == (2 if last == 200 else 4)
        assert client.post(server.url, data=b"order").status_code == last
    assert server.connections == 1


# Early responses


def test_early_responses_reach_their_hook_in_each_attempt() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    seen = []
    with wire.serve(wire.garbage(hints + busy), wire.garbage(hints + good)) as server, opened() as client:
        answer = client.get(
            server.url, hooks={"early_response": [lambda early: seen.append(early.status_code)]}
        )
    assert (answer.content, seen) == (b"ok", [103, 103])


# Streams of events

EVENT = b"data: hello\n\n"


def test_a_stream_of_events_is_opened_again_and_not_read_to_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    start = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
    with wire.serve(wire.answer(503), wire.garbage(head + start)) as server:
        with opened(validate=lambda _: False) as client:  # there is nothing to look at
            answer = client.get(f"psse{server.url.removeprefix('http')}")
            assert answer.extension.next_payload().data == "hello"
            answer.extension.close()
    assert len(server.requests) == 2


# Retries of its own


@pytest.mark.parametrize("make", [HTTPAdapter, AsyncHTTPAdapter], ids=["sync", "async"])
@pytest.mark.parametrize("total", [1, 3, None])
def test_an_adapter_that_retries_by_itself_is_refused(make: Any, total: int | None) -> None:
    own = make(max_retries=niquests.RetryConfiguration(total=total))
    adapter = Adapter if make is HTTPAdapter else AsyncAdapter
    with pytest.raises(perdure.ConfigError, match="max_retries=0"):
        adapter(Retry(), own)


@pytest.mark.parametrize("retries", [0, False, niquests.RetryConfiguration(0)])
def test_one_that_does_not_is_taken(retries: Any) -> None:
    with wire.serve(wire.close()) as server, niquests.Session() as client:
        client.trust_env = False
        client.mount("http://", Adapter(Retry(attempts=2), HTTPAdapter(max_retries=retries)))
        with pytest.raises(niquests.exceptions.ConnectionError):
            client.get(server.url)
    assert len(server.requests) == 2


# Sessions


def test_everything_that_a_session_sends_goes_by_the_policy() -> None:
    assert {type(one) for one in session(Retry()).adapters.values()} == {Adapter}
    assert {type(one) for one in async_session(Retry()).adapters.values()} == {AsyncAdapter}


def test_a_session_that_was_closed_and_is_used_again_still_goes_by_the_policy() -> None:
    with wire.serve(wire.answer(200), wire.answer(503), wire.answer(200)) as server:
        client = opened()
        with client:
            client.get(server.url)
        answer = client.get(server.url)
        client.close()
    assert (answer.status_code, len(perdure.attempts_of(answer))) == (200, 1)


# Challenges

CHALLENGE = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}


def test_the_answer_to_a_challenge_goes_by_the_policy() -> None:
    with wire.serve(wire.answer(401, CHALLENGE), wire.answer(503), wire.answer(200)) as server:
        with opened() as client:
            answer = client.get(server.url, auth=niquests.auth.HTTPDigestAuth("me", "secret"))
    assert (answer.status_code, len(perdure.attempts_of(answer))) == (200, 1)


# Timeouts


@pytest.mark.parametrize(
    "timeout",
    [
        (5, 0.05),
        (5, 5, 0.05),
        (None, None, 0.05),
        0.05,
        Timeout(total=0.05),
        Timeout(read=0.05),
        Timeout(connect=5, read=0.05),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", [Retry(attempts=2), None], ids=["retry", "dependency"])
def test_every_form_of_a_timeout_holds_under_a_policy(timeout: Any, policy: Any) -> None:
    policy = policy or Dependency("slow", retry=Retry(attempts=2), gate=None, replace=True)
    with wire.serve(wire.hang()) as server, opened(policy) as client:
        with pytest.raises(niquests.exceptions.ReadTimeout) as caught:
            client.get(server.url, timeout=timeout)
    assert [one.fault.kind for one in perdure.attempts_of(caught.value)] == [FaultKind.AMBIGUOUS] * 2


def test_the_shorter_of_two_timeouts_holds() -> None:
    policy = Dependency("short", timeouts=perdure.Timeouts(connect=1, read=0.05), retry=None, replace=True)
    with wire.serve(wire.hang()) as server, opened(policy) as client:
        begun = time.monotonic()
        with pytest.raises(niquests.exceptions.ReadTimeout):
            client.get(server.url, timeout=Timeout(total=20, read=20))
        assert time.monotonic() - begun < 10


# Streams


def test_the_last_answer_of_a_stream_can_be_read() -> None:
    with wire.serve(wire.answer(503, body=b"y" * 200_000)) as server, opened() as client:
        answer = client.get(server.url, stream=True)
        assert b"".join(answer.iter_content(1000)) == b"y" * 200_000
    assert len(server.requests) == 4


def test_signatures() -> None:
    """The module is not in tests/api.txt, which is written where niquests is not installed."""
    import inspect

    from perdure.integrations import niquests as module

    shown = {name: str(inspect.signature(getattr(module, name))) for name in module.__all__}
    policy = "(policy: 'Dependency | View | Retry', "
    assert shown == {
        "Adapter": policy + "wrap: 'BaseAdapter | None' = None, **options: 'Unpack[Given]') -> 'None'",
        "AsyncAdapter": policy
        + "wrap: 'AsyncBaseAdapter | None' = None, **options: 'Unpack[Given]') -> 'None'",
        "async_session": policy + "**options: 'Unpack[Given]') -> 'niquests.AsyncSession'",
        "session": policy + "**options: 'Unpack[Given]') -> 'niquests.Session'",
    }
