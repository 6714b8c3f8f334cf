from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import azure.core
import azure.core.pipeline.policies
import boto3
import botocore.session
import httpx
import httpx2
import openai
import pytest
import requests
import requests.adapters
import urllib3
from botocore.config import Config
from google import genai
from google.genai import types as genai_types

import perdure
import perdure.adapt
from perdure import ConfigError, Dependency, Retry, Timeouts
from perdure.adapt import adapt, known, retries_of, said, warn_if_retrying

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "k", "region_name": "eu-central-1"}
TIMES = Timeouts(connect=1, read=2)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    said.forget()
    yield
    said.forget()


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url="http://host.test") as client:
        yield client


@pytest.fixture(scope="module")
def litellm() -> Any:
    """Loaded late, as it takes seconds, and without asking the network for prices."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        return importlib.import_module("litellm")


class Stranger:
    def fetch(self) -> None: ...


# -- what is known ---------------------------------------------------------------------------------------------


def test_the_package_is_the_function_too(client: openai.OpenAI) -> None:
    assert perdure.adapt(client).max_retries == 0  # type: ignore[operator] # a module that can be called
    assert perdure.adapt.retries_of(client) == 2


def test_every_way_to_a_method_leads_to_its_client(client: openai.OpenAI) -> None:
    create = client.chat.completions.create

    @functools.wraps(create)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return create(*args, **kwargs)

    for way in (
        client,
        client.chat,
        client.chat.completions,
        create,
        functools.partial(create, model="m"),
        functools.partial(functools.partial(create, model="m"), stream=True),
        client.with_raw_response.chat.completions.create,
        wrapped,
    ):
        assert retries_of(way) == 2
    assert retries_of(client.with_options(max_retries=5).models.list) == 5


def test_classes_made_at_run_time_are_forgotten_together() -> None:
    for _ in range(known._MOST + 10):
        assert retries_of(type("Made", (), {})()) is None
    assert len(known._packages) <= known._MOST


class Hostile:
    """Answers for every attribute with an error that nobody expects."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


class Looping:
    @property
    def __wrapped__(self) -> Looping:
        return self


@pytest.mark.parametrize(
    "thing",
    [
        None,
        7,
        "x",
        len,
        print,
        object(),
        Stranger(),
        Stranger().fetch,
        Stranger,
        lambda: 1,
        sys,
        Hostile(),
        Looping(),
    ],
    ids=repr,
)
def test_of_everything_else_nothing_is_known(thing: Any) -> None:
    assert retries_of(thing) is None
    warn_if_retrying(thing, 4)


def test_classes_of_a_known_package_that_are_no_clients_are_unknown() -> None:
    assert retries_of(requests.Request("GET", "http://host.test")) is None
    assert retries_of(httpx.Request("GET", "http://host.test")) is None
    assert retries_of(httpx.URL("http://host.test")) is None


def test_a_release_whose_inside_has_changed_is_unknown_and_left_alone(client: openai.OpenAI) -> None:
    client.max_retries = "some"  # type: ignore[assignment]
    assert retries_of(client) is None
    del client._client
    with pytest.warns(RuntimeWarning, match=r"openai\.OpenAI cannot be switched off"):
        assert adapt(client) is client


def test_looking_for_a_client_loads_no_client_library() -> None:
    program = """
import sys
from perdure.adapt import retries_of, warn_if_retrying
def plain(): ...
assert retries_of(plain) is None
warn_if_retrying(plain, 4)
known = {"openai", "anthropic", "google", "botocore", "azure", "litellm", "httpx", "requests", "urllib3"}
print(sorted(known & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# -- what cannot be adapted ------------------------------------------------------------------------------------


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """The texts of the RuntimeWarnings of a test, in order."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, category, *_: texts.append(f"{category.__name__}: {message}")
        yield texts


def test_an_unknown_client_is_named_once_and_comes_back_as_it_is(heard: list[str]) -> None:
    first, second = Stranger(), Stranger()
    assert adapt(first, TIMES) is first
    assert adapt(first) is first
    assert len(heard) == 1
    assert adapt(second) is second
    assert len(heard) == 2
    assert "RuntimeWarning: perdure does not know" in heard[0]
    assert "Stranger: its own retries and timeouts stay" in heard[0]


def test_clients_without_weak_references_are_told_apart_by_class(heard: list[str]) -> None:
    assert adapt(7) == 7
    assert adapt(8) == 8
    assert heard == ["RuntimeWarning: perdure does not know int: its own retries and timeouts stay"]


def test_what_was_said_keeps_no_client_alive() -> None:
    stranger = Stranger()
    with pytest.warns(RuntimeWarning, match="Stranger"):
        adapt(stranger)
    assert len(said._clients) == 1
    del stranger
    assert len(said._clients) == 0


def test_timeouts_that_cannot_be_handed_over_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    session = botocore.session.Session()
    monkeypatch.setattr(session, "set_default_client_config", lambda config: None)
    monkeypatch.setattr("perdure.adapt.boto._session", lambda client: None)
    monkeypatch.setattr("perdure.adapt.boto.without_retries", lambda client: client)
    monkeypatch.setattr("perdure.adapt.boto.knows", lambda client: True)
    with pytest.warns(RuntimeWarning, match=r"botocore\.session\.Session does not take timeouts"):
        assert adapt(session, TIMES) is session


@pytest.mark.parametrize("policy", [7, "fast", object(), Stranger()])
def test_a_policy_of_another_kind_is_refused(client: openai.OpenAI, policy: Any) -> None:
    with pytest.raises(ConfigError, match="policy must be"):
        adapt(client, policy)


# -- timeouts ----------------------------------------------------------------------------------------------------


def test_the_timeouts_come_from_any_policy(client: openai.OpenAI) -> None:
    payments = Dependency("adapted-payments", timeouts=TIMES)
    timed = Dependency("adapted-timed", retry=Retry(attempt_timeout=3))
    expected = httpx2.Timeout(connect=1, read=2, write=2, pool=1)
    for policy in (TIMES, payments, payments.using(retry=None), payments.at("eu")):
        assert adapt(client, policy).timeout == expected
    for policy in (Retry(attempt_timeout=3), timed):
        assert adapt(client, policy).timeout == httpx2.Timeout(3)
    for policy in (None, Retry(), Dependency("adapted-plain")):
        assert adapt(client, policy).timeout == client.timeout


def test_a_copy_leaves_the_client_as_it_was(client: openai.OpenAI) -> None:
    before = client.timeout
    adapted = adapt(client, TIMES)
    assert adapted is not client
    assert (client.max_retries, client.timeout) == (2, before)
    assert adapted._client is client._client


def test_no_bound_is_a_bound_too(client: openai.OpenAI) -> None:
    adapted = adapt(client, Timeouts(connect=None, read=None))
    assert adapted.timeout == httpx2.Timeout(None)


# -- each library ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_httpx_retries_while_it_connects(library: Any) -> None:
    mounts = {
        "http://": library.HTTPTransport(retries=4),
        "all://mocked": library.MockTransport(lambda _: None),
    }
    with library.Client(transport=library.HTTPTransport(retries=1), mounts=mounts) as client:
        assert retries_of(client) == retries_of(client.get) == 4
        assert adapt(client, TIMES) is client
        assert retries_of(client) == 0
        assert client.timeout == library.Timeout(connect=1, read=2, write=2, pool=1)


def test_what_httpx_retries_under_a_client_counts(client: openai.OpenAI) -> None:
    with openai.OpenAI(
        api_key="k", http_client=httpx2.Client(transport=httpx2.HTTPTransport(retries=3)), max_retries=1
    ) as other:
        assert retries_of(other) == 4
        assert retries_of(adapt(other)) == 0


@pytest.mark.parametrize(
    ("retry", "count"),
    [
        (0, 0),
        (3, 3),
        (urllib3.Retry(5, status_forcelist=[503]), 5),
        (urllib3.Retry(False), 0),
        (urllib3.Retry(total=None, connect=2, read=1, redirect=9), 3),
    ],
)
def test_requests_retries_in_its_adapters(retry: Any, count: int) -> None:
    with requests.Session() as session:
        assert retries_of(session) == 0
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        assert retries_of(session) == retries_of(session.get) == count
        adapt(adapt(session, TIMES), TIMES)
        assert retries_of(session) == 0


def test_a_session_keeps_the_timeout_of_a_call() -> None:
    class Seen(requests.adapters.HTTPAdapter):
        def send(self, request: Any, stream: bool = False, timeout: Any = None, **rest: Any) -> Any:
            response = requests.Response()
            response.status_code, response.url, response.raw = 200, request.url, None
            response.headers["timeout"] = str(timeout)
            response._content = b""
            return response

    with requests.Session() as session:
        session.mount("http://", Seen())
        adapt(adapt(session, Timeouts(connect=9, read=9)), TIMES)
        assert session.get("http://host.test").headers["timeout"] == "(1, 2)"
        assert session.get("http://host.test", timeout=7).headers["timeout"] == "7"


def test_urllib3_retries_in_managers_and_pools() -> None:
    with urllib3.PoolManager() as manager, urllib3.PoolManager(retries=False) as off:
        assert retries_of(manager) == retries_of(manager.request) == 3
        assert retries_of(off) == 0
        adapt(manager, TIMES)
        assert retries_of(manager) == 0
        assert manager.connection_pool_kw["timeout"].read_timeout == 2
    with urllib3.HTTPConnectionPool("host.test", retries=urllib3.Retry(total=None, connect=2)) as pool:
        assert retries_of(pool) == 2
        adapt(pool, TIMES)
        assert retries_of(pool) == 0
        assert pool.timeout.connect_timeout == 1


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (None, 0),
        (genai_types.HttpRetryOptions(), 4),
        (genai_types.HttpRetryOptions(attempts=3), 2),
        (genai_types.HttpRetryOptions(attempts=0), 0),
    ],
)
def test_genai_retries_when_it_was_told_to(options: Any, count: int) -> None:
    with genai.Client(api_key="k", http_options=genai_types.HttpOptions(retry_options=options)) as client:
        for way in (client, client.models, client.models.generate_content, client.aio, client.aio.models):
            assert retries_of(way) == count
        assert adapt(client, TIMES) is client
        assert retries_of(client.aio.models.generate_content) == 0
        assert client._api_client._http_options.timeout == 3000
        adapt(client, Timeouts(connect=None, read=2))
        assert client._api_client._http_options.timeout is None


@pytest.mark.parametrize(
    ("service", "retries", "count"),
    [
        ("sqs", {"mode": "legacy"}, 4),
        ("dynamodb", {"mode": "legacy"}, 9),
        ("sqs", {"mode": "standard"}, 2),
        ("dynamodb", {"mode": "adaptive"}, 3),
        ("sqs", {"mode": "standard", "total_max_attempts": 7}, 6),
        ("sqs", {"max_attempts": 5}, 5),
        ("sqs", {"total_max_attempts": 1}, 0),
    ],
)
def test_boto_retries_by_mode_and_service(
    monkeypatch: pytest.MonkeyPatch, service: str, retries: Any, count: int
) -> None:
    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.delenv(name, raising=False)
    config = Config(retries=retries)
    made = boto3.client(service, config=config, **KEYS)  # type: ignore[call-overload]
    assert retries_of(made) == count
    adapt(made, TIMES)
    assert retries_of(made) == 0
    assert (made.meta.config.connect_timeout, made.meta.config.read_timeout) == (1, 2)
    made.close()


def test_a_config_is_adapted_as_a_copy() -> None:
    assert retries_of(Config()) is None  # the mode is the session's
    config = Config(region_name="eu-central-1", retries={"mode": "standard"})
    adapted = adapt(config, TIMES)
    assert retries_of(config) == 2
    assert retries_of(adapted) == 0
    assert (adapted.region_name, adapted.retries["mode"]) == ("eu-central-1", "standard")
    assert (adapted.connect_timeout, adapted.read_timeout) == (1, 2)


@pytest.mark.parametrize("cls", [boto3.Session, botocore.session.Session])
def test_a_session_makes_adapted_clients(monkeypatch: pytest.MonkeyPatch, cls: Any) -> None:
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "6")
    session = cls()
    assert retries_of(session) == 5
    assert adapt(session, TIMES) is session
    assert retries_of(session) == 0
    make = session.client if cls is boto3.Session else session.create_client
    made = make("sqs", **KEYS)
    assert retries_of(made.send_message) == 0
    assert made.meta.config.read_timeout == 2
    made.close()


def test_azure_retries_in_its_pipeline() -> None:
    retry = azure.core.pipeline.policies.RetryPolicy(retry_total=6)
    with azure.core.PipelineClient("http://host.test", policies=[retry]) as client:
        assert retries_of(client) == retries_of(client.send_request) == 6
        adapt(client, TIMES)
        assert retries_of(client) == 0
        assert client._pipeline._transport.connection_config.read_timeout == 2
    with azure.core.PipelineClient("http://host.test", policies=[]) as client:
        assert retries_of(client) == 0


def test_the_functions_of_litellm_are_adapted_one_by_one(litellm: Any) -> None:
    assert retries_of(litellm.completion) == 2
    assert retries_of(functools.partial(litellm.completion, model="m")) == 2
    assert retries_of(functools.partial(litellm.completion, max_retries=0)) == 0
    assert retries_of(litellm.token_counter) is None
    adapted = adapt(litellm.completion, TIMES)
    assert adapted.keywords == {"max_retries": 0, "timeout": 3}
    assert adapt(litellm.completion, Timeouts(connect=None)).keywords == {"max_retries": 0}
    assert retries_of(adapted) == 0


def test_litellm_itself_has_no_switch(litellm: Any) -> None:
    assert retries_of(litellm) == 2
    with pytest.warns(RuntimeWarning, match="litellm cannot be switched off: .* a Router"):
        assert adapt(litellm) is litellm


def test_a_router_of_litellm_is_adapted_in_place(litellm: Any) -> None:
    parameters = {"model": "openai/m", "api_key": "k", "api_base": "http://host.test"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": parameters}], num_retries=3)
    assert retries_of(router) == retries_of(router.completion) == 3
    assert adapt(router, TIMES) is router
    assert (retries_of(router), router.timeout) == (0, 3)


# -- the detector ------------------------------------------------------------------------------------------------


def test_a_guarded_method_of_a_client_that_retries_is_said_once(
    client: openai.OpenAI, heard: list[str]
) -> None:
    for _ in range(3):
        warn_if_retrying(client.chat.completions.create, 4)
    warn_if_retrying(client.models.list, 4)
    said_once = (
        "RuntimeWarning: openai.OpenAI retries by itself (2 more requests for each attempt): up to 12 requests per "
        "call; switch that off with perdure.adapt(client)"
    )
    assert heard == [said_once]


def test_the_warning_names_the_line_of_the_user(client: openai.OpenAI) -> None:
    for act in (adapt, perdure.adapt):
        with pytest.warns(RuntimeWarning) as seen:
            act(Stranger())  # type: ignore[operator]
        assert seen[0].filename == __file__
    with pytest.warns(RuntimeWarning) as seen:
        warn_if_retrying(client.models.list, 4)
    assert seen[0].filename == __file__


def test_unbounded_attempts_are_not_multiplied(client: openai.OpenAI) -> None:
    with pytest.warns(RuntimeWarning, match=r"for each attempt\); switch"):
        warn_if_retrying(client.models.list, None)


def test_what_does_not_multiply_is_not_said(client: openai.OpenAI) -> None:
    warn_if_retrying(client.models.list, 1)
    warn_if_retrying(adapt(client).models.list, 4)
    warn_if_retrying(Stranger().fetch, 4)
