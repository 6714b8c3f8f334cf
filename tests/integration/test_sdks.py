"""Real clients against a server on loopback: what they raise, and how many requests a guarded call makes."""

from __future__ import annotations

import asyncio
import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import anthropic
import azure.core
import azure.core.pipeline.policies
import azure.core.rest
import boto3
import botocore.config
import botocore.session
import httpx
import httpx2
import ollama
import openai
import pytest
import requests
import requests.adapters
import urllib3
from google import genai
from google.genai import types as genai_types

import perdure
from perdure import Retry, Safety, Timeouts
from perdure.adapt import adapt, retries_of, said
from perdure.testing import no_waits
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ATTEMPTS = 2
POLICY = Retry(attempts=ATTEMPTS, safety=Safety.SAFE)
QUESTION: Any = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "k", "region_name": "eu-central-1"}


OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    said.forget()
    yield
    said.forget()
    while OPEN:
        client = OPEN.pop()
        (getattr(client, "close", None) or getattr(client, "clear", None) or client.meta.client.close)()


def opened(client: Any) -> Any:
    """Closed when the test ends."""
    OPEN.append(client)
    return client


Made = tuple[Any, "Callable[[Any], Callable[[], Any]]"]


def made_openai(url: str) -> Made:
    client = opened(openai.OpenAI(api_key="k", base_url=url))
    return client, lambda one: partial(one.chat.completions.create, **QUESTION)


def made_anthropic(url: str) -> Made:
    client = opened(anthropic.Anthropic(api_key="k", base_url=url))
    return client, lambda one: partial(one.messages.create, **QUESTION, max_tokens=9)


def made_genai(url: str) -> Made:
    options = genai_types.HttpOptions(base_url=url, retry_options=genai_types.HttpRetryOptions(attempts=3))
    client = opened(genai.Client(api_key="k", http_options=options))
    return client, lambda one: partial(one.models.generate_content, model="m", contents="?")


def made_boto3(url: str) -> Made:
    client = opened(boto3.client("s3", endpoint_url=url, **KEYS))  # type: ignore[call-overload]
    return client, lambda one: partial(one.get_object, Bucket="b", Key="k")


def made_standard(url: str) -> Made:
    config = botocore.config.Config(retries={"mode": "adaptive", "total_max_attempts": 4})
    client = opened(boto3.client("dynamodb", endpoint_url=url, config=config, **KEYS))  # type: ignore[call-overload]
    return client, lambda one: one.list_tables


def made_resource(url: str) -> Made:
    resource = opened(boto3.resource("s3", endpoint_url=url, **KEYS))  # type: ignore[call-overload]
    return resource, lambda one: one.Object("b", "k").get


def made_azure(url: str) -> Made:
    retry = azure.core.pipeline.policies.RetryPolicy()
    client = opened(azure.core.PipelineClient(url, policies=[retry]))

    def call(one: Any) -> Callable[[], Any]:
        def get() -> None:
            one.send_request(azure.core.rest.HttpRequest("GET", url)).raise_for_status()

        return get

    return client, call


def made_requests(url: str) -> Made:
    session = opened(requests.Session())
    retry = urllib3.Retry(3, status_forcelist=[503], backoff_factor=0)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))

    def call(one: Any) -> Callable[[], Any]:
        return lambda: one.get(url).raise_for_status()

    return session, call


MADE = [
    made_openai,
    made_anthropic,
    made_genai,
    made_boto3,
    made_standard,
    made_resource,
    made_azure,
    made_requests,
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__.removeprefix("made_"))
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_a_guarded_call_makes_as_many_requests_as_attempts(made: Callable[[str], Made]) -> None:
    with wire.serve(wire.answer(503)) as server:
        client, call = made(server.url)
        assert retries_of(client)
        adapted = adapt(client)
        with no_waits():
            outcome = POLICY.outcome(call(adapted))
        assert isinstance(outcome.error, Exception)
        assert outcome.attempts == ATTEMPTS
        assert len(server.requests) == ATTEMPTS
        assert retries_of(adapted) == 0


def test_unadapted_clients_multiply() -> None:
    """What all this is for; the server asks for no delay, so that the client's own wait takes no time."""
    with wire.serve(wire.answer(503, {"retry-after-ms": "1"})) as server:
        client, call = made_openai(server.url)
        with no_waits(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            POLICY.outcome(call(client))
        assert len(server.requests) == ATTEMPTS * 3


@pytest.mark.parametrize("library", [openai, anthropic])
def test_async_clients_are_adapted_alike(library: Any) -> None:
    async def main(url: str) -> int | None:
        cls = library.AsyncOpenAI if library is openai else library.AsyncAnthropic
        async with adapt(cls(api_key="k", base_url=url), Timeouts(connect=1, read=2)) as client:
            assert client.timeout == httpx2.Timeout(connect=1, read=2, write=2, pool=1)
            call = client.chat.completions.create if library is openai else client.messages.create
            more = {} if library is openai else {"max_tokens": 9}
            with pytest.raises(library.InternalServerError):
                await POLICY.call(call, **QUESTION, **more)
            return retries_of(call)

    with wire.serve(wire.answer(503)) as server, no_waits():
        assert asyncio.run(main(server.url)) == 0
        assert len(server.requests) == ATTEMPTS


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
def test_the_async_side_of_genai_is_adapted_with_the_client() -> None:
    async def main(url: str) -> None:
        client = adapt(made_genai(url)[0])
        with pytest.raises(genai.errors.ServerError):
            await POLICY.call(client.aio.models.generate_content, model="m", contents="?")
        assert retries_of(client.aio.models.generate_content) == 0
        await client.aio.aclose()

    with wire.serve(wire.answer(503)) as server, no_waits():
        asyncio.run(main(server.url))
        assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize("made", [made_openai, made_anthropic, made_boto3, made_azure, made_requests])
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_the_timeouts_of_the_policy_cut_a_server_that_hangs(made: Callable[[str], Made]) -> None:
    with wire.serve(wire.hang()) as server:
        client, call = made(server.url)
        adapted = adapt(client, Timeouts(connect=5, read=0.05))
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
            call(adapted)()
        assert len(server.requests) == 1
    fault = perdure.classify(caught.value)
    assert (fault.kind, "timed out" in fault.why) == (perdure.FaultKind.AMBIGUOUS, True)


def test_the_timeout_of_genai_is_one_number_that_the_server_is_told() -> None:
    with wire.serve(wire.hang()) as server:
        client, call = made_genai(server.url)
        adapt(client, Timeouts(connect=0.05, read=0.05))
        with pytest.raises(Exception) as caught:  # noqa: PT011 - httpx's or httpx2's, as the release has it
            call(client)()
        assert dict(server.requests[0].headers).get("x-server-timeout") == "1"
    assert perdure.classify(caught.value).kind is perdure.FaultKind.AMBIGUOUS


def test_redirects_are_still_followed() -> None:
    with wire.serve(wire.redirect("/there"), wire.answer(body=b"ok")) as server:
        manager = adapt(opened(urllib3.PoolManager()), Timeouts(connect=1, read=1))
        assert manager.request("GET", server.url).data == b"ok"
    with wire.serve(wire.redirect("/there"), wire.answer(body=b"ok")) as server:
        session = adapt(opened(requests.Session()))
        assert session.get(server.url).content == b"ok"


def test_urllib3_gives_back_answers_and_makes_one_request_for_each() -> None:
    with wire.serve(wire.answer(503, {"Retry-After": "0"}), wire.close()) as server:
        retry = urllib3.Retry(3, status_forcelist=[503])
        manager = adapt(opened(urllib3.PoolManager(retries=retry)))
        assert retries_of(manager) == 0
        assert manager.request("GET", server.url).status == 503
        with pytest.raises(urllib3.exceptions.HTTPError) as caught:
            manager.request("GET", server.url)
        assert len(server.requests) == 2
    assert perdure.classify(caught.value).kind is perdure.FaultKind.AMBIGUOUS


def test_what_ollama_raises() -> None:
    with wire.serve(
        wire.answer(503, body=json.dumps({"error": "busy"})),
        wire.answer(404, body=json.dumps({"error": "none"})),
    ) as server:
        client = adapt(opened(ollama.Client(server.url)), Timeouts(connect=1, read=2))
        assert client._client.timeout == httpx.Timeout(connect=1, read=2, write=2, pool=1)
        kinds = []
        for _ in range(2):
            with pytest.raises(ollama.ResponseError) as caught:
                client.chat("m")
            kinds.append(perdure.classify(caught.value).kind)
    assert kinds == [perdure.FaultKind.THROTTLED, perdure.FaultKind.STALE]
    with wire.refused() as port, pytest.raises(ConnectionError) as refused:
        opened(ollama.Client(f"http://127.0.0.1:{port}")).chat("m")
    assert perdure.classify(refused.value).retryable


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"__type": "com.amazonaws#ThrottlingException", "message": "no"}, perdure.FaultKind.THROTTLED),
        ({"__type": "com.amazonaws#ProvisionedThroughputExceededException"}, perdure.FaultKind.THROTTLED),
        ({"__type": "com.amazonaws#ResourceNotFoundException"}, perdure.FaultKind.PERMANENT),
        ({"__type": "com.amazonaws#LimitExceededException"}, perdure.FaultKind.THROTTLED),
    ],
)
def test_what_dynamodb_raises(body: dict[str, str], kind: perdure.FaultKind) -> None:
    with wire.serve(
        wire.answer(400, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(body))
    ) as server:
        client = adapt(opened(boto3.client("dynamodb", endpoint_url=server.url, **KEYS)))  # type: ignore[call-overload]
        with pytest.raises(client.exceptions.ClientError) as caught:
            client.list_tables()
        assert len(server.requests) == 1
    assert perdure.classify(caught.value).kind is kind


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (wire.close(), perdure.FaultKind.AMBIGUOUS),
        (wire.reset(), perdure.FaultKind.AMBIGUOUS),
        (wire.short_body(), perdure.FaultKind.AMBIGUOUS),
        (wire.answer(503, body="<Error><Code>SlowDown</Code></Error>"), perdure.FaultKind.THROTTLED),
        (wire.answer(404, body="<Error><Code>NoSuchKey</Code></Error>"), perdure.FaultKind.PERMANENT),
    ],
    ids=["close", "reset", "short", "SlowDown", "NoSuchKey"],
)
def test_what_s3_raises(step: wire.Step, kind: perdure.FaultKind) -> None:
    with wire.serve(step) as server:
        client = adapt(opened(boto3.client("s3", endpoint_url=server.url, **KEYS)))  # type: ignore[call-overload]
        with pytest.raises(Exception) as caught:  # noqa: PT011 - ClientError, or botocore's own
            client.get_object(Bucket="b", Key="k")["Body"].read()
    assert perdure.classify(caught.value).kind is kind


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_nobody_there_is_transient_for_every_client() -> None:
    with wire.refused() as port:
        for made in MADE:
            client, call = made(f"http://127.0.0.1:{port}")
            with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
                call(adapt(client))()
            assert perdure.classify(caught.value).kind is perdure.FaultKind.TRANSIENT, made
