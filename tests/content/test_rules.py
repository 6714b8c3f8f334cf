"""Rules: what they get, how they are made and put together, and that nothing in a body breaks them."""

from __future__ import annotations

import copy
import json
import pickle
import re
from email.message import Message
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import ConfigError, Fault, FaultKind, content
from perdure.content import Reply, Rule, every, rule
from perdure.faults.documents import LIMIT

RULES: list[Rule] = [one for name in content.__all__ if isinstance(one := getattr(content, name), Rule)]
BUSY = Fault(FaultKind.THROTTLED, 2.0, "busy")


def reply(body: bytes = b"", status: int = 200, headers: Any = None, *, complete: bool = True) -> Reply:
    return Reply(status, headers, body, complete)


# -- replies ---------------------------------------------------------------------------------------------


def test_a_reply_gives_its_document_its_text_and_its_headers() -> None:
    headers = Message()
    headers["Content-Type"] = "application/json"
    one = reply(b'{"a": [1]}', headers=headers)
    assert one.json() == {"a": [1]}
    assert one.json() is one.json()
    assert one.text() == '{"a": [1]}'
    assert (one.header("content-type"), one.header("CONTENT-TYPE"), one.header("x")) == (
        *["application/json"] * 2,
        "",
    )
    assert Reply.of([1]).json() == [1]
    assert Reply.of([1]) == Reply.of([1]) != Reply.of([2])
    assert reply(b"\xff{").json() is None
    assert reply(b"[" + b" " * LIMIT).json() is None
    assert reply().json() is None


@pytest.mark.parametrize(
    "one", [*RULES, reply(b"{}", headers={"a": "b"}), every(content.json, content.slack)]
)
def test_rules_and_replies_are_values(one: Any) -> None:
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert other == one
    name = "name" if isinstance(one, Rule) else "status"
    with pytest.raises(AttributeError):
        setattr(one, name, 1)


# -- rules of users --------------------------------------------------------------------------------------


def test_a_function_becomes_a_rule() -> None:
    @rule
    def busy(one: Reply) -> Fault | None:
        return BUSY if one.body == b"BUSY" else None

    assert (busy.name, busy.reads) == ("busy", "whole")
    assert busy(reply(b"BUSY")) is BUSY
    assert busy(reply(b"ok")) is None
    assert rule(busy) is busy


def test_a_kind_is_enough_of_an_answer() -> None:
    late = rule(lambda _: FaultKind.TRANSIENT, reads="start", name="late")
    assert late(reply(status=202)) == Fault(FaultKind.TRANSIENT, None, "HTTP 202, late")
    assert late.reads == "start"


class Callable:
    def __call__(self, one: Reply) -> FaultKind:
        return FaultKind.PERMANENT


def test_a_callable_object_is_named_after_its_class() -> None:
    assert rule(Callable()).name == "Callable"


@pytest.mark.parametrize("does", [lambda _: 1 / 0, lambda _: "busy", lambda _: True])
def test_a_broken_rule_is_reported_once_and_passed_over(does: Any) -> None:
    broken = rule(does, name="mine")
    with pytest.warns(RuntimeWarning, match="content rule mine (raised|returned) .* passed over"):
        assert broken(reply()) is None
    assert broken(reply()) is None


async def later(_: Reply) -> None:
    """No rule."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: rule(7), "rule must be a plain function of the Reply, got 7"),  # type: ignore[arg-type]
        (lambda: rule(later), "rule must be a plain function of the Reply, got <function later"),  # type: ignore[arg-type]
        (lambda: rule(Callable(), reads="all"), """reads must be "whole" or "start", got 'all'"""),  # type: ignore[arg-type]
        (lambda: every(), "every() needs at least one rule"),
        (lambda: every(content.json, later), "every() takes rules, got <function later"),  # type: ignore[arg-type]
        (lambda: content.rejects(later), "rejects() takes a rule, got <function later"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_rule_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        make()


# -- together --------------------------------------------------------------------------------------------


def test_the_first_rule_that_sees_a_failure_decides() -> None:
    mine = rule(lambda one: BUSY if b"internal_error" in one.body else None, name="mine")
    both = every(mine, content.slack)
    assert both.name == "mine + slack"
    assert both(reply(b'{"ok": false, "error": "internal_error"}')) is BUSY
    other = both(reply(b'{"ok": false, "error": "ratelimited"}'))
    assert other is not None
    assert other.why == "HTTP 200, Slack: ratelimited"
    assert both(reply(b'{"ok": true}')) is None


def test_rules_together_read_as_much_as_the_one_that_reads_most() -> None:
    assert every(content.sse, content.json).reads == "whole"
    streams = every(content.sse, content.ndjson)
    assert streams.reads == "start"
    assert not streams.is_enough(b'{"a": 1}\n')  # to the other it is no event yet
    assert streams.is_enough(b"data: {}\n\n")


def test_how_much_is_enough() -> None:
    plain = rule(lambda _: None, reads="start")
    assert (plain.is_enough(b""), plain.is_enough(b"x")) == (False, True)
    assert (content.json.is_enough(b"x"), content.json.is_enough(b"x" * LIMIT)) == (False, True)
    assert content.sse.is_enough(b":" * LIMIT)


# -- hostile bodies ----------------------------------------------------------------------------------------

BOMBS = [
    b"[" * LIMIT,
    b'{"errors":' * 6_000,
    b'{"ok":false,"error":' + b"9" * 60_000 + b"}",
    b'{"jsonrpc":"2.0","error":{"code":' + b"9" * 5_000 + b"}}",
    b'{"errors":true,"items":[' + b"{}," * 20_000 + b"{}]}",
    b"<!--" * 16_000,
    b"<![CDATA[" * 7_000 + b"Fault",
    b"<Body " * 10_000 + b"Fault",
    b"<a:Body>" * 8_000 + b"<Fault>",
    b"<Body><Fault>" + b"<faultcode " * 5_000,
    b"<?xml " * 10_000,
    b" " * LIMIT,
    b"event: error\n" * 5_000,
    b"data:\n" * 10_000,
    b"\r\n" * 30_000,
    b"\xff\xfe" + b"\xd8\x00" * 30_000,
    b"\x00" * LIMIT,
    b'{"error":"' + b"\\ud800" * 10_000 + b'"}',
]


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.name)
def test_no_bomb_breaks_a_rule(one: Rule) -> None:
    for bomb in BOMBS:
        for complete in (True, False):
            fault = one(reply(bomb, complete=complete))
            assert fault is None or len(fault.why) < 200
        assert one.is_enough(bomb) in {True, False}


@settings(max_examples=80)
@given(st.binary(max_size=200), st.integers(100, 599), st.booleans())
def test_no_bytes_break_a_rule(body: bytes, status: int, complete: bool) -> None:
    for one in RULES:
        fault = one(reply(body, status, complete=complete))
        assert fault is None or fault.why.startswith("HTTP ")
        assert one.is_enough(body) in {True, False}


NAMES = [
    *("data", "errors", "error", "extensions", "code", "type", "ok", "jsonrpc", "id", "items", "status"),
    *(
        "responses",
        "headers",
        "body",
        "Failed",
        "Successful",
        "Code",
        "UnprocessedItems",
        "FailedRecordCount",
    ),
    *("Records", "ErrorCode", "insertErrors", "reason", "index", "object", "choices", "delta", "retry_after"),
]
LEAVES = [429, "429", 400, -32603, "THROTTLED", "INTERNAL_SERVER_ERROR", "ERROR", False, True, None]
DOCUMENTS = st.recursive(
    st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=15,
)


@settings(max_examples=80)
@given(DOCUMENTS)
def test_no_document_breaks_a_rule(document: Any) -> None:
    raw = json.dumps(document).encode()
    for body in (raw, raw + b"\n", b"data: " + raw + b"\n\n"):
        for one in RULES:
            fault = one(reply(body))
            if fault is not None:
                assert fault.why.startswith("HTTP ")
                assert fault.why.isprintable()
                assert fault.hint is None or 0 < fault.hint <= 1e10
    content.unfinished(document)
    for one in RULES:
        assert content.rejects(one)(document) in {True, False}
