"""GraphQL, Slack, JSON-RPC, XML, and JSON at all: what their answers under a good status mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import FaultKind
from perdure.content import Reply, graphql, graphql_strict, json_rpc, s3, slack, soap
from perdure.content import json as json_rule
from perdure.faults.signal import Signal, signal_of

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


def reply(body: Any, status: int = 200, headers: Any = None, *, complete: bool = True) -> Reply:
    if isinstance(body, str):
        body = body.encode()
    return Reply(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode(), complete)


def failed(*codes: str | None, **more: Any) -> dict[str, Any]:
    errors = [{"message": "m", **({} if code is None else {"extensions": {"code": code}})} for code in codes]
    return {"errors": errors, **more}


# -- GraphQL -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("THROTTLED", R),
        ("RATE_LIMITED", R),
        ("RATELIMITED", R),
        ("TOO_MANY_REQUESTS", R),
        ("INTERNAL_SERVER_ERROR", A),
        ("DOWNSTREAM_SERVICE_ERROR", A),
        ("TIMEOUT", A),
        ("REQUEST_TIMED_OUT", A),
        ("SERVICE_UNAVAILABLE", T),
        ("UNAUTHENTICATED", S),
        ("GRAPHQL_VALIDATION_FAILED", P),
        ("GRAPHQL_PARSE_FAILED", P),
        ("BAD_USER_INPUT", P),
        ("FORBIDDEN", P),
        ("MY_OWN", P),
        (None, P),
    ],
)
def test_graphql_errors_go_by_their_code(code: str | None, kind: FaultKind) -> None:
    for body in (failed(code), failed(code, data=None), failed(code, data={"user": None}), [failed(code)]):
        for rule in (graphql, graphql_strict):
            fault = rule(reply(body))
            assert fault is not None
            assert fault.kind is kind
            assert fault.why.startswith("HTTP 200, GraphQL: ")


def test_graphql_codes_stand_in_several_places() -> None:
    for error in (
        {"type": "RATE_LIMITED"},
        {"errorType": "ThrottlingException"},
        {"extensions": {"type": "THROTTLED"}},
    ):
        fault = graphql(reply({"errors": [error]}))
        assert fault is not None
        assert fault.kind is R


def test_partial_data_is_no_failure_unless_asked() -> None:
    partial = reply(failed("INTERNAL_SERVER_ERROR", data={"user": {"id": 1}, "orders": None}))
    assert graphql(partial) is None
    strict = graphql_strict(partial)
    assert strict is not None
    assert strict.kind is A


def test_shopify_says_how_long_by_the_cost_of_the_query() -> None:
    status = {"maximumAvailable": 1000, "currentlyAvailable": 666, "restoreRate": 50}
    cost = {"cost": {"requestedQueryCost": 752, "actualQueryCost": None, "throttleStatus": status}}
    for code in (200, 429):
        fault = graphql(reply(failed("THROTTLED", extensions=cost), code))
        assert fault is not None
        assert (fault.kind, fault.hint) == (R, 1.72)


def test_of_several_errors_the_gravest_counts() -> None:
    def kind(*codes: str) -> FaultKind | None:
        fault = graphql(reply(failed(*codes)))
        return None if fault is None else fault.kind

    assert kind("THROTTLED", "BAD_USER_INPUT") is P
    assert kind("THROTTLED", "INTERNAL_SERVER_ERROR") is A
    assert kind("SERVICE_UNAVAILABLE", "THROTTLED") is R


@pytest.mark.parametrize(
    "body", [{"data": {}}, {"errors": []}, {"errors": "x"}, {"errors": ["x"]}, [], "no", {}, b""]
)
def test_what_has_no_errors_is_well(body: Any) -> None:
    assert graphql(reply(body)) is graphql_strict(reply(body)) is None


def test_under_an_error_status_only_a_known_code_says_more() -> None:
    assert graphql(reply(failed("MY_OWN"), 500)) is None
    known = graphql(reply(failed("BAD_USER_INPUT"), 500))
    assert known is not None
    assert known.kind is P


def test_a_code_is_shown_short_and_clean() -> None:
    fault = graphql(reply(failed("a\nb\x1b[31m" + "x" * 500)))
    assert fault is not None
    assert fault.why.isprintable()
    assert len(fault.why) < 100


# -- Slack -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ratelimited", R),
        ("service_unavailable", T),
        ("request_timeout", T),
        ("team_added_to_org", T),
        ("internal_error", A),  # "some aspect of the operation" may have "succeeded", says Slack
        ("fatal_error", A),
        ("token_expired", S),
        ("invalid_auth", P),
        ("channel_not_found", P),
        (None, P),
        (7, P),
        ({}, P),
    ],
)
def test_slack_says_ok_false(error: object, kind: FaultKind) -> None:
    fault = slack(reply({"ok": False, "error": error}))
    assert fault is not None
    assert (fault.kind, fault.hint) == (kind, None)


def test_slack_says_how_long_in_the_header() -> None:
    fault = slack(reply({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "30"}))
    assert fault is not None
    assert (fault.kind, fault.hint) == (R, 30.0)


@pytest.mark.parametrize("body", [{"ok": True}, {"ok": True, "error": "x"}, {"ok": 0}, {}, [], "ok", b"\xff"])
def test_slack_is_well_otherwise(body: Any) -> None:
    assert slack(reply(body)) is None


# -- JSON-RPC ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32700, P),
        (-32600, P),
        (-32601, P),
        (-32602, P),
        (-32603, A),
        (-32001, A),
        (-32005, R),
        (-32000, P),
        (-32099, P),
        (1, P),
    ],
)
def test_json_rpc_goes_by_number(code: int, kind: FaultKind) -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "m"}}
    for body in (
        answer,
        [{"jsonrpc": "2.0", "id": 2, "result": 1}, answer],
        {"id": 1, "error": {"code": code}},
    ):
        fault = json_rpc(reply(body))
        assert fault is not None
        assert fault.kind is kind
        assert str(code) in fault.why


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": 1, "result": 1},
        {"jsonrpc": "2.0", "id": 1, "error": None},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": True}},
        {"error": {"code": -32603}},  # somebody else's document
        [],
        "x",
    ],
)
def test_json_rpc_is_well_otherwise(body: Any) -> None:
    assert json_rpc(reply(body)) is None


# -- SOAP --------------------------------------------------------------------------------------------------

SOAP_11 = """<?xml version="1.0"?>
<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header/><soap:Body>
  <soap:Fault><faultcode>{}</faultcode><faultstring>m</faultstring></soap:Fault>
</soap:Body></soap:Envelope>"""
SOAP_12 = """<env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope"><env:Body id="1">
  <env:Fault><env:Code><env:Value>{}</env:Value></env:Code><env:Reason/></env:Fault></env:Body></env:Envelope>"""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("soap:Server", A),
        ("Server", A),
        ("env:Receiver", A),
        ("soap:Client", P),
        ("soap:Client.Authentication", P),
        ("env:Sender", P),
        ("env:MustUnderstand", P),
        ("soap:VersionMismatch", P),
        ("env:DataEncodingUnknown", P),
    ],
)
@pytest.mark.parametrize("envelope", [SOAP_11, SOAP_12])
@pytest.mark.parametrize("status", [200, 500])
def test_a_soap_fault_goes_by_whose_side_it_is_on(
    status: int, envelope: str, code: str, kind: FaultKind
) -> None:
    for body in (envelope.format(code), envelope.format(code).encode("utf-16")):
        fault = soap(reply(body, status))
        assert fault is not None
        assert fault.kind is kind
        assert "SOAP fault: " in fault.why


def test_what_a_server_adds_to_a_soap_code_is_no_sign_of_congestion() -> None:
    fault = soap(reply(SOAP_11.format("soap:Server.SessionTimeout")))
    assert fault is not None
    assert fault.why == 'HTTP 200, SOAP fault: "Server.SessionTimeout"'
    assert signal_of(RuntimeError(), fault, wanted=True) is Signal.FAILURE


def test_an_unknown_soap_fault_is_permanent_or_what_the_status_says() -> None:
    for code in ("x:Other", ""):
        fault = soap(reply(SOAP_11.format(code)))
        assert fault is not None
        assert fault.kind is P
        assert soap(reply(SOAP_11.format(code), 500)) is None


@pytest.mark.parametrize(
    "body",
    [
        SOAP_11.replace("soap:Fault", "m:Result").format("soap:Server"),
        "<Envelope><Body><m:Answer><Fault><faultcode>Server</faultcode></Fault></m:Answer></Body></Envelope>",
        "<Envelope><!-- <Body><Fault><faultcode>Server</faultcode></Fault></Body> --><Body/></Envelope>",
        "<Envelope><Header><![CDATA[<Body><Fault/></Body>]]></Header><Body/></Envelope>",
        "<Envelope><!-- <Body><Fault/>",
        '{"Fault": 1}',
        "",
    ],
)
def test_a_fault_that_is_not_the_first_in_the_body_is_none(body: str) -> None:
    assert soap(reply(body)) is None


# -- S3 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InternalError", T),
        ("SlowDown", R),
        ("ServiceUnavailable", R),
        ("RequestTimeout", T),
        ("NoSuchUpload", P),
    ],
)
def test_s3_sends_errors_under_200(code: str, kind: FaultKind) -> None:
    error = f"<Error><Code>{code}</Code><Message>m</Message></Error>"
    for body in (error, '<?xml version="1.0" encoding="UTF-8"?>\n' + error, "   \n\n" + error):
        fault = s3(reply(body))
        assert fault is not None
        assert fault.kind is kind
        assert fault.why == f"HTTP 200, S3: {code}"


def test_an_s3_error_without_a_code_is_permanent() -> None:
    fault = s3(reply("<Error/><Error></Error>"))
    assert fault is None
    fault = s3(reply("<Error><Message>m</Message></Error>"))
    assert fault is not None
    assert fault.kind is P


@pytest.mark.parametrize(
    "body", ["<CopyObjectResult><Error><Code>SlowDown</Code></Error>", "   ", "", "<Errors>"]
)
def test_s3_is_well_otherwise(body: str) -> None:
    assert s3(reply(body)) is None


def test_under_an_error_status_the_classifier_has_read_s3s_code() -> None:
    assert s3(reply("<Error><Code>InternalError</Code></Error>", 500)) is None


# -- JSON --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<!DOCTYPE html><html><body>Sign in to the Wi-Fi</body></html>", T),
        ("  \n<HTML lang=en>", T),
        (b"\xef\xbb\xbf<html>", T),
        ("", A),
        ("   ", A),
        ('{"a": [1, 2', A),
        ('{"a": "unterminated', A),
        ('{"a": tru', A),
        ('[{"a": 1},', A),
        ("[1, 2, -", A),
        ('"cut', A),
        ("upstream says no", P),
        ('{"a": 1} trailing and more of it', P),
        ("{'a': 1, 'and': 'so', 'on': 1}", P),
        ("<Answer/>", P),
        (b"\xff\xfe\xfd", P),
    ],
)
def test_what_is_not_json_where_json_was_expected(body: Any, kind: FaultKind) -> None:
    fault = json_rule(reply(body))
    assert fault is not None
    assert fault.kind is kind


@pytest.mark.parametrize("body", ["{}", "[]", "null", "7", '"x"', " true ", "9" * 5_000, "NaN"])
def test_any_json_is_well(body: str) -> None:
    assert json_rule(reply(body)) is None


def test_a_page_is_known_by_its_type_as_well() -> None:
    fault = json_rule(reply("<div>Sign in</div>", headers={"Content-Type": "text/html; charset=utf-8"}))
    assert fault is not None
    assert fault.kind is T


@pytest.mark.parametrize("status", [204, 205, 304, 302, 404, 500])
def test_where_no_json_was_expected_nothing_is_missed(status: int) -> None:
    assert json_rule(reply("", status)) is None
    assert json_rule(reply("<html>", status)) is None


def test_of_a_long_body_only_the_beginning_is_judged() -> None:
    assert json_rule(reply('{"a": [1, 2', complete=False)) is None
    fault = json_rule(reply("<!doctype html>", complete=False))
    assert fault is not None
    assert fault.kind is T
