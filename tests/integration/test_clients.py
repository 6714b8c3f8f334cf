"""What every HTTP integration does, with the real client and real sockets.

Ids of reported cases: B084, B086 (statuses), B100, B102, B104 (unsafe methods), B109, B110, B113 (bodies), B114,
B115 (connections), B116 (the request of a response).
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Dependency, FaultKind, FaultyResponse, Retry, Safety, StopReason
from perdure.testing import no_waits, record_events
from tests.integration import wire
from tests.integration.clients import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.clients import Client


@pytest.fixture(autouse=True)
def waits() -> Iterator[list[float]]:
    with no_waits() as skipped:
        yield skipped


def dependency(name: str = "payments", **given: Any) -> Dependency:
    given.setdefault("gate", None)  # it paces retries in a time that does not pass here
    return Dependency(name, replace=True, **given)


def error_of(send: Callable[[], Any]) -> Exception:
    """Whatever the client raises: each has its own class for the same thing."""
    try:
        got = send()
    except Exception as error:  # noqa: BLE001 - see above
        return error
    raise AssertionError(f"no error, but {got}")


@each()
@pytest.mark.parametrize("make", [Retry, dependency], ids=["retry", "dependency"])
def test_a_transient_answer_is_asked_again(client: Client, make: Any, waits: list[float]) -> None:
    with wire.serve(wire.answer(503), wire.answer(502, body=b"bad"), wire.answer(body=b"ok")) as server:
        with client.open(make()) as session:
            answer = session.send("GET", server.url)
    assert (answer.status, answer.body) == (200, b"ok")
    assert [record.fault.why for record in answer.attempts] == [
        "HTTP 503 Service Unavailable",
        "HTTP 502 Bad Gateway",
    ]
    assert len(waits) == 2


@each()
def test_a_success_has_no_record_and_costs_one_request(client: Client) -> None:
    with wire.serve(wire.answer(body=b"ok")) as server, client.open(dependency()) as session:
        assert session.send("GET", server.url).attempts == ()
    assert len(server.requests) == 1


@each()
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 501, 505])
def test_a_permanent_answer_is_given_back_at_once(client: Client, status: int) -> None:
    with wire.serve(wire.answer(status, body=b"no")) as server, client.open(dependency()) as session:
        answer = session.send("GET", server.url)
    assert (answer.status, answer.body, len(server.requests)) == (status, b"no", 1)


@each()
@pytest.mark.parametrize("status", [429, 500, 503])
def test_exhausted_attempts_give_the_last_response_whole(client: Client, status: int) -> None:
    steps = [wire.answer(status, body=f"answer {number}") for number in range(4)]
    with wire.serve(*steps) as server, client.open(dependency()) as session:
        answer = session.send("GET", server.url)
    assert (answer.status, answer.body, len(server.requests)) == (status, b"answer 3", 4)
    assert len(answer.attempts) == 4


@each()
@pytest.mark.parametrize("status", [429, 502, 503])
def test_exhausted_attempts_raise_where_asked(client: Client, status: int) -> None:
    with wire.serve(wire.answer(status)) as server:
        with client.open(dependency(), raise_on_exhausted=True) as session:
            with pytest.raises(Exception, match=str(status)) as caught:
                session.send("GET", server.url)
    assert type(caught.value).__name__ == client.status_error
    assert len(perdure.attempts_of(caught.value)) == len(server.requests) == 4


@each()
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_unsafe_request_is_not_sent_again_when_it_may_have_acted(client: Client, status: int) -> None:
    with wire.serve(wire.answer(status, body=b"?")) as server, client.open(dependency()) as session:
        answer = session.send("POST", server.url, b"order")
    assert (answer.status, len(server.requests)) == (status, 1)


@each()
@pytest.mark.parametrize(
    ("status", "headers"), [(429, {}), (503, {"Retry-After": "7"}), (429, {"Retry-After": "7"})]
)
def test_an_unsafe_request_is_sent_again_when_it_was_refused(
    client: Client, status: int, headers: dict[str, str], waits: list[float]
) -> None:
    with wire.serve(wire.answer(status, headers), wire.answer(201)) as server:
        with client.open(dependency()) as session:
            answer = session.send("POST", server.url, b"order")
    assert answer.status == 201
    assert [request.body for request in server.requests] == [b"order", b"order"]
    assert waits[0] >= (7 if headers else 0)


@each()
def test_a_keyed_request_is_sent_again(client: Client) -> None:
    with wire.serve(wire.answer(500), wire.close(), wire.answer(201)) as server:
        with client.open(dependency()) as session:
            answer = session.send("POST", server.url, b"order", {"Idempotency-Key": "k1"})
    assert answer.status == 201
    assert {request.headers["idempotency-key"] for request in server.requests} == {"k1"}


@each()
def test_a_lost_answer_is_repeated_for_safe_methods_only(client: Client) -> None:
    with wire.serve(wire.close(), wire.answer(body=b"ok")) as server, client.open(dependency()) as session:
        assert session.send("GET", server.url).body == b"ok"
    with wire.serve(wire.close(), wire.answer(body=b"ok")) as server, client.open(dependency()) as session:
        error = error_of(lambda: session.send("POST", server.url, b"order"))
    assert len(server.requests) == 1
    assert "repeating it is not safe" in " ".join(getattr(error, "__notes__", []))


@each()
def test_what_was_never_sent_is_repeated_for_any_method(client: Client) -> None:
    with wire.refused() as port, client.open(dependency()) as session:
        error = error_of(lambda: session.send("POST", f"http://127.0.0.1:{port}", b"order"))
    assert len(perdure.attempts_of(error)) == 4


@each()
def test_a_client_does_not_repeat_what_was_given_up(client: Client) -> None:
    with wire.serve(wire.close()) as server, client.open(dependency()) as session:
        error_of(lambda: session.send("GET", server.url))
    assert len(server.requests) == 4


@each()
def test_a_policy_around_the_client_does_not_multiply(client: Client) -> None:
    class Refused(Exception):
        """As clients raise for a status: the response lies on it."""

    with wire.serve(wire.answer(503)) as server, client.open(dependency()) as session:

        @perdure.retry
        def ask() -> None:
            answer = session.send("GET", server.url)
            error = Refused(answer.status)
            error.response = answer.response  # type: ignore[attr-defined]
            raise error

        with pytest.raises(Refused) as caught:
            ask()
    assert len(server.requests) == 4
    assert "already given up" in " ".join(caught.value.__notes__)


@each()
def test_a_user_says_that_a_request_is_safe(client: Client) -> None:
    with wire.serve(wire.answer(500), wire.answer(200)) as server:
        with client.open(dependency(safety=Safety.SAFE)) as session:
            assert session.send("POST", server.url, b"search").status == 200


# Bodies

LENGTH = {"Content-Length": "16"}  # some clients count a file from its very start


@each()
def test_a_file_is_sent_again_from_where_it_stood(client: Client) -> None:
    file = io.BytesIO(b"head|the part to send")
    file.seek(5)
    with wire.serve(wire.answer(503), wire.answer(503), wire.answer(200)) as server:
        with client.open(dependency()) as session:
            assert session.send("PUT", server.url, file, LENGTH).status == 200
    assert [request.body for request in server.requests] == [b"the part to send"] * 3


class Pipe(io.BytesIO):
    """A file that cannot be put back."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: Any) -> int:
        raise io.UnsupportedOperation("seek")

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


@each()
@pytest.mark.parametrize("body", [Pipe, lambda given: (one for one in [given])], ids=["pipe", "generator"])
def test_what_can_be_sent_once_is_not_sent_empty(client: Client, body: Any) -> None:
    with wire.serve(wire.answer(503), wire.answer(200)) as server, client.open(dependency()) as session:
        answer = session.send("PUT", server.url, body(b"all of it"))
    assert answer.status == 503
    assert [request.body for request in server.requests] == [b"all of it"]
    assert len(answer.attempts) == 1


@each()
def test_what_can_be_sent_once_is_still_there_after_a_refused_connection(client: Client) -> None:
    body = (one for one in [b"all of it"])
    with wire.refused() as port, client.open(dependency()) as session:
        error = error_of(lambda: session.send("PUT", f"http://127.0.0.1:{port}", body))
    assert len(perdure.attempts_of(error)) == 4


@each(only=lambda client: client.follows_redirects)
@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_takes_the_whole_file_along(client: Client, status: int) -> None:
    file = io.BytesIO(b"head|the part to send")
    file.seek(5)
    with wire.serve(wire.redirect("/there", status), wire.answer(503), wire.answer(200)) as server:
        with client.open(dependency()) as session:
            assert session.send("PUT", server.url, file, LENGTH).status == 200
    assert [request.body for request in server.requests] == [b"the part to send"] * 3


@each()
def test_json_is_encoded_once(client: Client) -> None:
    with wire.serve(wire.answer(503), wire.answer(200)) as server, client.open(dependency()) as session:
        session.send("PUT", server.url, json.dumps({"a": 1}).encode(), {"Content-Type": "application/json"})
    assert [json.loads(request.body) for request in server.requests] == [{"a": 1}, {"a": 1}]


@each()
@pytest.mark.parametrize("broken", [wire.short_body(), wire.cut_chunked(), wire.reset_in_body()])
def test_a_body_cut_short_is_asked_for_again(client: Client, broken: wire.Step) -> None:
    with wire.serve(broken, wire.answer(body=b"ok")) as server:
        with client.open(dependency(), whole=True) as session:
            answer = session.send("GET", server.url)
    assert answer.body == b"ok"
    assert [record.fault.kind for record in answer.attempts] == [FaultKind.AMBIGUOUS]


@each()
def test_a_body_cut_short_is_not_asked_for_again_where_that_may_act(client: Client) -> None:
    with wire.serve(wire.short_body()) as server, client.open(dependency(), whole=True) as session:
        error_of(lambda: session.send("POST", server.url, b"order"))
    assert len(server.requests) == 1


# Connections


@each()
@pytest.mark.parametrize("size", [10, 300_000], ids=["small", "large"])
def test_a_pool_of_one_connection_survives_discarded_answers(client: Client, size: int) -> None:
    steps = [wire.answer(429, body=b"x" * size), wire.answer(503, body=b"x" * size), wire.answer(body=b"ok")]
    with wire.serve(*steps) as server, client.open(dependency(), pool=1) as session:
        assert session.send("GET", server.url).body == b"ok"
        if not client.is_async:
            assert session.send("GET", server.url).body == b"ok"
    if size == 10:
        assert server.connections == 1


@each()
def test_a_large_answer_of_the_last_attempt_is_whole(client: Client) -> None:
    with wire.serve(wire.answer(503, body=b"y" * 300_000)) as server, client.open(dependency()) as session:
        assert session.send("GET", server.url).body == b"y" * 300_000


# Dependencies


@each()
def test_each_host_has_a_state_of_its_own(client: Client) -> None:
    payments = dependency("by-host", breaker=perdure.Breaker(failures=2), retry=None)
    with wire.serve(wire.answer(500)) as sick, wire.serve(wire.answer(200)) as well:
        with client.open(payments) as session:
            for _ in range(2):
                session.send("GET", sick.url)
            with pytest.raises(perdure.BreakerOpen):
                session.send("GET", sick.url)
            assert session.send("GET", well.url).status == 200
    assert payments.at(f"127.0.0.1:{sick.port}").snapshot()["breaker"]["state"] == "open"


@each()
def test_one_state_for_all_hosts_where_asked(client: Client) -> None:
    payments = dependency("whole", breaker=perdure.Breaker(failures=2), retry=None)
    with wire.serve(wire.answer(500)) as sick, wire.serve(wire.answer(200)) as well:
        with client.open(payments, key=None) as session:
            for _ in range(2):
                session.send("GET", sick.url)
            with pytest.raises(perdure.BreakerOpen):
                session.send("GET", well.url)


@each()
def test_a_permanent_answer_is_a_success_for_the_breaker(client: Client) -> None:
    payments = dependency("answers", breaker=perdure.Breaker(failures=2), retry=None)
    with wire.serve(wire.answer(404)) as server, client.open(payments) as session:
        for _ in range(5):
            assert session.send("GET", server.url).status == 404


@each()
def test_a_key_function_gets_the_request_and_may_give_none(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def region(request: Any) -> Any:
        return "read" if request.method == "GET" else None

    regional = dependency("regional", key=region)
    with wire.serve(wire.answer(200)) as server, client.open(regional) as session:
        session.send("GET", server.url)
        session.send("POST", server.url, b"order")
        session.send("POST", server.url, b"order", override={"key": "eu"})
    assert set(regional.snapshot()["keys"]) == {"read", "eu"}
    assert not caplog.records


@each()
def test_a_fallback_gets_the_error_and_the_request(client: Client) -> None:
    given: list[Any] = []

    def instead(error: Exception, request: Any) -> None:
        given.append((type(error), request.method))
        raise error

    with wire.refused() as port:
        guarded = dependency("fallen", retry=None, fallback=perdure.Fallback(instead))
        with client.open(guarded) as session:
            for method in ("GET", "POST"):
                error_of(lambda method=method: session.send(method, f"http://127.0.0.1:{port}"))
    assert [method for _, method in given] == ["GET", "POST"]


# One request that says otherwise


@each()
def test_one_request_is_not_repeated(client: Client) -> None:
    with wire.serve(wire.answer(503)) as server, client.open(dependency()) as session:
        assert session.send("GET", server.url, override={"retry": None}).status == 503
        assert len(server.requests) == 1
        with perdure.integrations.override(retry=Retry(attempts=2)):
            assert session.send("GET", server.url).status == 503
        assert len(server.requests) == 3


@each()
def test_one_request_is_declared_safe(client: Client) -> None:
    with wire.serve(wire.answer(500), wire.answer(200)) as server, client.open(Retry()) as session:
        assert session.send("POST", server.url, b"search", override={"safety": Safety.SAFE}).status == 200


@each()
def test_an_unknown_word_for_one_request_is_an_error(client: Client) -> None:
    with wire.serve(wire.answer(200)) as server, client.open(Retry()) as session:
        with pytest.raises(perdure.ConfigError, match="retries"):
            session.send("GET", server.url, override={"retries": 3})
    assert server.requests == []


# Times and headers


@each()
def test_a_read_timeout_of_the_dependency_is_handed_to_the_client(client: Client) -> None:
    payments = dependency("slow", timeouts=perdure.Timeouts(connect=1, read=0.05), retry=Retry(attempts=2))
    with wire.serve(wire.hang()) as server, client.open(payments, timeout=30) as session:
        error = error_of(lambda: session.send("GET", server.url))
    records = perdure.attempts_of(error)
    assert len(records) == 2
    assert all(record.fault.kind is FaultKind.AMBIGUOUS for record in records)
    assert all("timed out" in record.fault.why or "timeout" in record.fault.why for record in records)


@each()
def test_the_time_left_of_a_block_is_handed_to_the_client(client: Client) -> None:
    with wire.serve(wire.hang()) as server, client.open(Retry(), timeout=30) as session:
        with perdure.deadline(0.4):
            error_of(lambda: session.send("GET", server.url))
    assert len(server.requests) == 1


@each()
def test_attempts_are_announced_where_asked(client: Client) -> None:
    with wire.serve(wire.answer(503), wire.answer(200)) as server:
        with client.open(dependency(), announce=True) as session, perdure.deadline(20):
            session.send("GET", server.url)
    assert [request.headers["x-attempt"] for request in server.requests] == ["1", "2"]
    assert all("x-request-deadline" in request.headers for request in server.requests)


@each()
def test_a_token_is_renewed_once_and_sent_with_the_next_attempt(client: Client) -> None:
    tokens = ["old"]
    policy = Retry(refresh=lambda: tokens.append("new"))
    with wire.serve(wire.answer(401), wire.answer(200), wire.answer(401)) as server:
        with client.open(policy, headers=lambda: {"Authorization": f"Bearer {tokens[-1]}"}) as session:
            assert session.send("POST", server.url, b"order").status == 200
            assert session.send("GET", server.url).status == 401
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer new", "Bearer new"]


# Content


@each()
def test_validate_refuses_an_answer_and_leaves_the_body_alone(client: Client) -> None:
    good, bad = json.dumps({"version": 2}), json.dumps({"version": 1})

    def is_fresh(reply: Any) -> bool:
        return bool(json.loads(reply.body)["version"] == 2)

    with wire.serve(wire.answer(body=bad), wire.answer(body=good)) as server:
        with client.open(dependency(), validate=is_fresh) as session:
            answer = session.send("GET", server.url)
    assert answer.body == good.encode()
    assert [record.fault.why for record in answer.attempts] == ["answer not valid"]


@each()
def test_an_answer_that_stays_invalid_is_given_back(client: Client) -> None:
    with wire.serve(wire.answer(body=b"not json")) as server:
        with client.open(dependency(), validate=lambda reply: json.loads(reply.body)) as session:
            answer = session.send("GET", server.url)
        assert (answer.status, answer.body, len(server.requests)) == (200, b"not json", 4)
        with client.open(dependency(), validate=lambda _: False, raise_on_exhausted=True) as session:
            with pytest.raises(FaultyResponse, match="answer not valid"):
                session.send("GET", server.url)


@each()
def test_a_large_body_is_looked_at_in_part_and_arrives_whole(client: Client) -> None:
    seen = []
    with wire.serve(wire.answer(body=b"z" * 200_000, chunked=True)) as server:
        with client.open(dependency(), validate=seen.append, peek=1000) as session:
            assert session.send("GET", server.url).body == b"z" * 200_000
    assert (len(seen[0].body), seen[0].complete) == (1000, False)


# What is told


@each()
def test_events_name_the_dependency_and_the_host(client: Client) -> None:
    with wire.serve(wire.answer(503), wire.answer(200)) as server:
        with client.open(dependency("told")) as session, record_events() as seen:
            session.send("GET", server.url)
    again = next(event for event in seen if event.name == "retry.scheduled")
    assert (again.dependency, again.key) == ("told", f"127.0.0.1:{server.port}")
    assert [event.reason for event in seen if event.name == "call.end"] == [StopReason.SUCCESS]


@each()
def test_a_rule_on_results_gets_the_clients_response(client: Client) -> None:
    def is_stale(response: Any) -> bool:
        return response.headers.get("x-stale") == "1"

    with wire.serve(wire.answer(200, {"X-Stale": "1"}), wire.answer(body=b"new")) as server:
        with client.open(Retry(reject=is_stale)) as session:
            assert session.send("GET", server.url).body == b"new"
