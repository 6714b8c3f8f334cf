from __future__ import annotations

import importlib
import json
import warnings
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.signal import Signal, signal_of

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)
REQUEST = httpx2.Request("POST", "http://host.test/v1/chat")
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


def answering(
    status: int, body: object = None, headers: dict[str, str] | None = None
) -> httpx2.MockTransport:
    content = body if isinstance(body, str) else json.dumps(body or {})
    return httpx2.MockTransport(lambda _: httpx2.Response(status, headers=headers, content=content.encode()))


def asked_openai(transport: httpx2.BaseTransport, *, stream: bool = False) -> Exception:
    """What the client raises, with its own retries off."""
    http_client = httpx2.Client(transport=transport)
    with openai.OpenAI(
        api_key="k", base_url="http://host.test", http_client=http_client, max_retries=0
    ) as client:
        with pytest.raises(openai.OpenAIError) as caught:
            list(client.chat.completions.create(**QUESTION, stream=stream))  # type: ignore[call-overload]
        return caught.value


def asked_anthropic(transport: httpx2.BaseTransport, *, stream: bool = False) -> Exception:
    http_client = httpx2.Client(transport=transport)
    with anthropic.Anthropic(
        api_key="k", base_url="http://host.test", http_client=http_client, max_retries=0
    ) as client:
        with pytest.raises(anthropic.AnthropicError) as caught:
            list(client.messages.create(**QUESTION, max_tokens=9, stream=stream))  # type: ignore[call-overload]
        return caught.value


def failing(error: Exception) -> httpx2.MockTransport:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise error

    return httpx2.MockTransport(handler)


STATUSES = {
    **dict.fromkeys((400, 402, 403, 404, 412, 413, 422, 431, 501, 505), P),
    401: S,
    408: A,  # a POST
    409: T,  # a lock
    429: R,
    499: N,
    500: A,
    502: A,
    503: A,
    504: A,
    529: R,
}


# -- openai ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_openai_goes_by_the_status(status: int, kind: FaultKind) -> None:
    error = asked_openai(answering(status))
    assert isinstance(error, openai.APIStatusError)
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "rate_limit_exceeded", R),
        # B089: waiting does not pay a bill.
        (429, "insufficient_quota", P),
        (429, "billing_hard_limit_reached", P),
        (429, "credit_balance_exhausted", P),
        (401, "invalid_api_key", P),
        (404, "model_not_found", P),
        (400, "context_length_exceeded", P),
        (400, "content_policy_violation", P),
        (500, "server_error", A),
        (503, "slow_down", R),
        (503, "engine_overloaded_error", R),
    ],
)
def test_the_code_of_openai_outranks_the_status(status: int, code: str, kind: FaultKind) -> None:
    error = asked_openai(answering(status, {"error": {"code": code, "type": "x", "message": "no"}}))
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("status", "headers", "kind", "hint"),
    [
        (429, {"retry-after-ms": "4321", "retry-after": "9"}, R, 4.321),
        (429, {"retry-after": "9"}, R, 9.0),
        (503, {"retry-after": "9"}, R, 9.0),
        (409, {"retry-after": "9"}, T, 9.0),
        (429, {"x-should-retry": "false"}, P, None),
        (409, {"x-should-retry": "false"}, P, None),
        (400, {"x-should-retry": "true"}, T, None),
    ],
)
def test_openai_says_when_and_whether(
    status: int, headers: dict[str, str], kind: FaultKind, hint: float | None
) -> None:
    for fault in (
        classify(asked_openai(answering(status, None, headers))),
        classify(asked_anthropic(answering(status, None, headers))),
    ):
        assert (fault.kind, fault.hint) == (kind, hint)


@pytest.mark.parametrize(
    ("below", "kind"),
    [
        (httpx2.ConnectTimeout("x"), T),
        (httpx2.ReadTimeout("x"), A),
        (httpx2.WriteTimeout("x"), A),
        (httpx2.ConnectError("x"), T),
        (httpx2.ReadError("x"), A),
        (httpx2.RemoteProtocolError("x"), A),
        (httpx2.UnsupportedProtocol("x"), P),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_an_answer_the_http_client_says_whether_it_was_sent(
    below: Exception, kind: FaultKind
) -> None:
    for error in (asked_openai(failing(below)), asked_anthropic(failing(below))):
        assert isinstance(error, (openai.APIConnectionError, anthropic.APIConnectionError))
        assert classify(error).kind is kind


@pytest.mark.parametrize("library", [openai, anthropic])
def test_without_a_word_from_the_http_client_it_may_have_been_sent(library: Any) -> None:
    connection, timeout = library.APIConnectionError(request=REQUEST), library.APITimeoutError(REQUEST)
    assert classify(connection).kind is A
    assert classify(timeout) == Fault(A, None, "timed out")
    assert signal_of(timeout, classify(timeout), wanted=True) is Signal.OVERLOAD


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"type": "server_error", "message": "no"}}, A),
        ({"error": {"code": "rate_limit_exceeded", "type": "requests", "message": "no"}}, R),
        ({"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "no"}}, P),
        ({"error": {"code": 503, "message": "no"}}, A),
        ({"error": {"code": 400, "message": "no"}}, P),
        ({"error": {"message": "no"}}, A),
        ({"error": "no"}, A),
    ],
)
def test_an_error_inside_a_stream_of_openai_goes_by_its_type(event: object, kind: FaultKind) -> None:
    """B092."""
    body = f"data: {json.dumps(event)}\n\n"
    error = asked_openai(answering(200, body, {"content-type": "text/event-stream"}), stream=True)
    assert type(error) is openai.APIError
    fault = classify(error)
    assert fault.kind is kind
    assert fault.why.endswith("in the stream")


COMPLETION: Any = type("Completion", (), {"usage": None})()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (openai.LengthFinishReasonError(completion=COMPLETION), P),
        (openai.ContentFilterFinishReasonError(), P),
        (openai.APIResponseValidationError(httpx2.Response(200, request=REQUEST), None), P),
        (openai.InvalidWebhookSignatureError(), P),
        (openai.WebSocketConnectionClosedError("x", unsent_messages=[]), A),
        (openai.WebSocketQueueFullError(), P),
        (openai.OpenAIError("no key"), P),
        (openai.OAuthError(response=httpx2.Response(401, request=REQUEST), body=None), S),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_rest_of_openai(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    "error", [openai.WebSocketQueueFullError(), anthropic.CredentialsError("x"), ollama.RequestError("x")]
)
def test_what_a_client_refuses_says_nothing_of_the_provider(error: Exception) -> None:
    assert signal_of(error, classify(error), wanted=False) is Signal.NEUTRAL


# -- anthropic ---------------------------------------------------------------------------------------------------


def refusal(kind: str, code: str | None = None) -> dict[str, Any]:
    details = {"error_code": code} if code else None
    return {"type": "error", "error": {"type": kind, "message": "no", "details": details}}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_anthropic_goes_by_the_status(status: int, kind: FaultKind) -> None:
    error = asked_anthropic(answering(status))
    assert isinstance(error, anthropic.APIStatusError)
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("status", "body", "name", "kind"),
    [
        (429, refusal("rate_limit_error"), "RateLimitError", R),
        (429, refusal("rate_limit_error", "ramp_limit_exceeded"), "RampLimitExceededError", R),
        (
            429,
            refusal("rate_limit_error", "contract_spend_limit_reached"),
            "ContractSpendLimitReachedError",
            P,
        ),
        (
            429,
            refusal("rate_limit_error", "enforced_spend_limit_reached"),
            "EnforcedSpendLimitReachedError",
            P,
        ),
        (529, refusal("overloaded_error"), "OverloadedError", R),
        (500, refusal("api_error"), "InternalServerError", A),
        (504, refusal("timeout_error"), "GatewayTimeoutError", A),
        (409, refusal("conflict_error"), "ConflictError", T),
        (402, refusal("billing_error"), "PaymentRequiredError", P),
        (501, refusal("api_error"), "HTTPNotImplementedError", P),
    ],
)
def test_a_class_of_anthropic_may_mean_a_bill(
    status: int, body: dict[str, Any], name: str, kind: FaultKind
) -> None:
    error = asked_anthropic(answering(status, body))
    assert type(error).__name__ == name
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("type_", "kind", "signal"),
    [
        ("overloaded_error", R, Signal.OVERLOAD),
        ("rate_limit_error", R, Signal.THROTTLED),
        ("api_error", A, Signal.FAILURE),
        ("timeout_error", A, Signal.OVERLOAD),
        ("authentication_error", S, Signal.ANSWER),
        ("invalid_request_error", P, Signal.ANSWER),
        ("request_too_large", P, Signal.ANSWER),
        ("billing_error", P, Signal.ANSWER),
        ("something_new", A, Signal.FAILURE),
    ],
)
def test_an_error_inside_a_stream_of_anthropic_goes_by_its_type(
    type_: str, kind: FaultKind, signal: Signal
) -> None:
    """B092: the status is that of the stream, 200."""
    body = f"event: error\ndata: {json.dumps(refusal(type_))}\n\n"
    error = asked_anthropic(answering(200, body, {"content-type": "text/event-stream"}), stream=True)
    assert isinstance(error, anthropic.APIStatusError)
    assert error.status_code == 200
    fault = classify(error)
    assert fault.kind is kind
    assert signal_of(error, fault, wanted=False) is signal


def test_an_event_that_is_no_json_may_mean_anything() -> None:
    body = "event: error\ndata: upstream gone\n\n"
    error = asked_anthropic(answering(200, body, {"content-type": "text/event-stream"}), stream=True)
    assert classify(error) == Fault(A, None, "error in the stream")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (anthropic.RetryableError("x"), T),
        (anthropic.CredentialsError("x"), P),
        (anthropic.IdentityTokenFileError("x"), P),
        (anthropic.APIResponseValidationError(httpx2.Response(200, request=REQUEST), None), P),
        (anthropic.AnthropicError("x"), P),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_rest_of_anthropic(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


# -- ollama ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"), [(503, R), (404, S), (400, P), (500, A), (502, A), (429, R), (-1, A), (401, S)]
)
def test_ollama_goes_by_the_status(status: int, kind: FaultKind) -> None:
    assert classify(ollama.ResponseError('{"error": "no"}', status)).kind is kind


def test_an_error_line_of_ollama_comes_under_200() -> None:
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, content=b'{"error": "runner terminated"}\n')
    )
    with (
        ollama.Client("http://host.test", transport=transport) as client,
        pytest.raises(ollama.ResponseError) as caught,
    ):
        list(client.chat("m", stream=True))
    assert classify(caught.value) == Fault(A, None, "error in the stream")


def test_the_rest_of_ollama() -> None:
    assert classify(ollama.RequestError("x")).kind is P


# -- litellm -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def litellm() -> Any:
    """Loaded late, as it takes seconds, and without asking the network for prices."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        return importlib.import_module("litellm")


WHO = {"llm_provider": "openai", "model": "m"}


def answer(status: int, body: object = None, headers: dict[str, str] | None = None) -> httpx.Response:
    request = httpx.Request("POST", "http://host.test/")
    return httpx.Response(status, headers=headers, json=body or {}, request=request)


def test_litellm_goes_by_the_status(litellm: Any) -> None:
    unknown = answer(418)
    kinds = {
        litellm.AuthenticationError("x", **WHO): S,
        litellm.NotFoundError("x", **WHO): P,
        litellm.BadRequestError("x", **WHO): P,
        litellm.ContextWindowExceededError("x", **WHO): P,
        litellm.ContentPolicyViolationError("x", **WHO): P,
        litellm.UnprocessableEntityError("x", response=unknown, **WHO): P,
        litellm.PermissionDeniedError("x", response=unknown, **WHO): P,
        litellm.RateLimitError("x", **WHO): R,
        litellm.ServiceUnavailableError("x", **WHO): A,
        litellm.exceptions.BadGatewayError("x", **WHO): A,
        litellm.InternalServerError("x", **WHO): A,
        litellm.APIError(503, "x", **WHO): A,
        litellm.APIError(400, "x", **WHO): P,
        litellm.APIConnectionError("x", **WHO): A,
        litellm.Timeout("x", **WHO): A,
        litellm.BudgetExceededError(2.0, 1.0): P,
        litellm.JSONSchemaValidationError(raw_response="x", schema="x", **WHO): P,
        litellm.UnsupportedParamsError("x", **WHO): P,
        litellm.exceptions.MidStreamFallbackError("x", **WHO): A,
        litellm.exceptions.MidStreamFallbackError("x", original_exception=ConnectionRefusedError(), **WHO): T,
    }
    wrong = {error: classify(error) for error, kind in kinds.items() if classify(error).kind is not kind}
    assert not wrong


def test_the_limits_of_litellm_tell_a_bill_from_a_queue(litellm: Any) -> None:
    broke = answer(429, {"error": {"code": "insufficient_quota"}})
    soon = answer(429, headers={"retry-after": "7"})
    assert classify(litellm.RateLimitError("x", response=broke, **WHO)).kind is P
    assert classify(litellm.RateLimitError("x", response=soon, **WHO)).hint == 7.0
    assert classify(litellm.RateLimitError("x", rate_limit_type="budget", **WHO)).kind is P
    assert classify(litellm.RateLimitError("x", rate_limit_type="requests", **WHO)).kind is R


def test_a_connection_error_of_litellm_is_as_what_lies_under_it(litellm: Any) -> None:
    error = litellm.APIConnectionError("x", **WHO)
    error.__context__ = httpx.ConnectError("x")
    assert classify(error).kind is T
    error.__context__ = KeyError("x")  # a leftover of litellm's own code
    assert classify(error).kind is A


@pytest.mark.parametrize(("cooldown", "hint"), [(5.0, 5.0), (0, None), (float("nan"), None), ("soon", None)])
def test_a_router_whose_deployments_all_cool_down_says_for_how_long(
    litellm: Any, cooldown: Any, hint: float | None
) -> None:
    router = importlib.import_module("litellm.types.router")
    error = router.RouterRateLimitError("m", cooldown, enable_pre_call_checks=False, cooldown_list=[])
    fault = classify(error)
    assert (fault.kind, fault.hint) == (R, hint)
    assert classify(router.RouterRateLimitErrorBasic("m")).kind is R
