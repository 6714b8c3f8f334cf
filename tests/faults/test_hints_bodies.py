"""Delays in bodies: raw or parsed, whole or garbage."""

from __future__ import annotations

import json
import math
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.faults.asked import body_delay
from perdure.faults.documents import load
from perdure.faults.hints import LONGEST, asked_delay
from perdure.hints import Hint, hint_of

NOW = 1_796_046_243.4
INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}


@pytest.mark.parametrize("encode", [dict, json.dumps, lambda body: json.dumps(body, indent=2).encode()])
def test_a_body_is_read_raw_or_parsed(encode: Any) -> None:
    body = encode({"error": {"details": [INFO]}})
    assert hint_of({}, status=503, body=body) == Hint(2.5, "RetryInfo")
    assert load(body) == {"error": {"details": [INFO]}}


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + b'{"retry_after": 5}',
        bytearray(b'{"retry_after": 5}'),
        b' \r\n{"retry_after": 5} ',
        '\t{"retry_after": 5}',
        {"retry_after": "5"},
        {"retry_after": "5s"},
        {"error": {"retry_after": 5}},
        {"retry_after_ms": 5000},
        {"retryAfterSeconds": 5},
        [{"retry_after": 5}, {"retry_after": 1}, 7],
    ],
    ids=repr,
)
def test_a_body_comes_in_many_shapes(body: object) -> None:
    assert asked_delay({}, body=body) == 5


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"retry_after=5",
        b"<html>retry_after: 5</html>",
        b'{"retry_after": 5',
        b'{"retry_after": 5}' + b" " * 65_536,
        b'{"retry_after": 5, "x": "\xff"}',
        '{"retry_after": NaN}',
        '{"retry_after": Infinity}',
        '{"retry_after": 1e999}',
        '{"retry_after": -1}',
        '{"retry_after": true}',
        '{"retry_after": null}',
        '{"retry_after": [5]}',
        '{"retry_after": "soon"}',
        '{"retry_after": ' + "9" * 5000 + "}",
        "[" * 60_000,
        '{"a":' * 10_000,
        {"details": [{"@type": 7, "retryDelay": "5s"}, {"@type": INFO["@type"]}, 7]},
        {"details": {"@type": INFO["@type"], "retryDelay": "5s"}},
        {"errors": [{"extensions": {"code": "THROTTLED"}}], "extensions": {"cost": 7}},
        {"errors": "THROTTLED"},
        {"details": [*({} for _ in range(100)), INFO]},
        7,
        object(),
    ],
    ids=lambda body: repr(body)[:40],
)
def test_a_body_that_says_nothing_that_can_be_read_is_ignored(body: object) -> None:
    assert asked_delay({}, body=body) is None


def test_zero_is_told_from_nothing_and_the_huge_are_bounded() -> None:
    assert body_delay({"retry_after": 0}) == 0.0
    assert body_delay({"retry_after": 10**400}) == LONGEST
    assert body_delay({"retry_after": 1e300}) == LONGEST
    assert body_delay({"details": [{**INFO, "retryDelay": "9999999999999999s"}]}) == LONGEST


@pytest.mark.parametrize(
    ("field", "delay"),
    [
        *(("retry_after", 500), ("retry_after_seconds", 500), ("retryAfterSeconds", 500)),
        *(("retry_after_ms", 0.5), ("retryAfterMs", 0.5), ("retryAfterInMs", 0.5)),
    ],
)
def test_the_name_of_a_field_has_its_unit(field: str, delay: float) -> None:
    assert hint_of(body={field: 500}) == Hint(delay, field)


@pytest.mark.parametrize(
    ("fields", "delay"),
    [
        ({"seconds": 2}, 2),
        ({"nanos": 5e8}, 0.5),
        ({"seconds": 2, "nanos": 5e8}, 2.5),
        ({"seconds": "x", "nanos": 1}, None),
    ],
)
def test_a_duration_of_protobuf_may_be_written_out(fields: dict[str, object], delay: float | None) -> None:
    assert body_delay({"details": [{**INFO, "retryDelay": fields}]}) == delay


def test_a_body_counts_up_to_a_bound_of_its_length() -> None:
    assert asked_delay({}, body=b'{"retry_after": 5}'.ljust(65_536)) == 5
    assert asked_delay({}, body=b'{"retry_after": 5}'.ljust(65_537)) is None


def test_the_longest_of_several_counts() -> None:
    longer = {**INFO, "retryDelay": "7s"}
    assert body_delay({"error": {"details": [INFO, longer, INFO]}}) == 7


@pytest.mark.parametrize(
    ("header", "delay"), [("65", 64.57), ("64570", 64_570), ("x", 64_570), ("0", 64_570)]
)
def test_milliseconds_of_old_versions_of_discord_are_told_by_the_header(header: str, delay: float) -> None:
    """The same field has been in seconds and in milliseconds: 64.57 and 64570."""
    hint = hint_of({"Retry-After": header}, status=429, body={"retry_after": 64_570})
    assert hint == Hint(pytest.approx(delay), "retry_after")


@pytest.mark.parametrize(("body", "delay"), [(499, 499), (500, 0.5), (2000, 2), (2001, 2001)])
def test_a_delay_is_in_milliseconds_only_where_the_header_is_about_a_thousandth(
    body: float, delay: float
) -> None:
    assert asked_delay({"Retry-After": "1"}, body={"retry_after": body}) == delay
    assert asked_delay({"Retry-After": "0.5"}, body={"retry_after": body / 2}) == delay / 2


@pytest.mark.parametrize(
    ("headers", "body", "hint"),
    [
        ({"retry-after-ms": "10", "retry-after": "5"}, {"retry_after": 7}, Hint(0.01, "retry-after-ms")),
        ({"retry-after": "5"}, {"retry_after": 7}, Hint(7, "retry_after")),
        ({"retry-after": "5"}, {"retry_after": "x"}, Hint(5, "retry-after")),
        ({"retry-after": "x", "ratelimit": '"a";r=0;t=9'}, None, Hint(9, "ratelimit")),
        ({"retry-after": "5", "ratelimit": '"a";r=0;t=9'}, None, Hint(5, "retry-after")),
        ({"ratelimit": '"a";r=0;t=9'}, {"retry_after": 7}, Hint(7, "retry_after")),
        # A valid zero ends the search: what is less exact does not overrule it.
        ({"retry-after-ms": "0", "retry-after": "5"}, None, None),
        ({"retry-after": "0", "ratelimit": '"a";r=0;t=9'}, None, None),
    ],
)
def test_the_more_exact_comes_first(headers: dict[str, str], body: object, hint: Hint | None) -> None:
    assert hint_of(headers, status=429, body=body, now=NOW) == hint


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2s", "THROTTLED"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "error",
                        "errors",
                        "details",
                        "@type",
                        "retryDelay",
                        "retry_after",
                        "retry_after_ms",
                        "parameters",
                    ),
                    *(
                        "extensions",
                        "cost",
                        "throttleStatus",
                        "requestedQueryCost",
                        "restoreRate",
                        "currentlyAvailable",
                    ),
                    *("code", "estimated_time", "seconds", "nanos"),
                ]
            ),
            inner | st.just(INFO["@type"]),
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(JSON | st.text() | st.binary(), st.sampled_from([None, "5", "x"]))
@example(
    {
        "errors": [{"extensions": {"code": "THROTTLED"}}],
        "extensions": {
            "cost": {
                "requestedQueryCost": 1e308,
                "throttleStatus": {"currentlyAvailable": 0, "restoreRate": 5e-324},
            }
        },
    },
    None,
)
def test_whatever_a_body_holds_the_result_can_be_waited_for(body: object, header: str | None) -> None:
    delay = asked_delay({} if header is None else {"retry-after": header}, NOW, body=body)
    assert delay is None or (0 <= delay <= LONGEST and math.isfinite(delay))


class Counted(dict[str, Any]):
    """A JSON object that counts how often it is looked into."""

    looks = 0

    def get(self, key: object, default: Any = None) -> Any:
        Counted.looks += 1
        return super().get(key, default)  # type: ignore[arg-type]

    def __contains__(self, key: object) -> bool:
        Counted.looks += 1
        return super().__contains__(key)


@pytest.mark.parametrize("many", [10, 1000, 100_000])
def test_the_work_on_a_document_is_bounded_whatever_its_size(many: int) -> None:
    entries: list[Any] = [Counted({"@type": "x", "details": [Counted()] * 3}) for _ in range(min(many, 1000))]
    entries *= max(1, many // 1000)
    for document in (entries, Counted(details=entries, errors=entries, error=Counted(details=entries))):
        Counted.looks = 0
        assert body_delay(document) is None
        assert Counted.looks <= 6000


def test_a_document_is_only_parsed_when_it_may_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("parsed"))
    assert load("x" * 70_000) is None
    assert load(b"<html>") is None
    assert asked_delay({"retry-after": formatdate(NOW + 5, usegmt=True)}, NOW) == 5
