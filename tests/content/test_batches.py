"""Answers about many items: all failed, some failed, and which to send again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import FaultKind
from perdure.content import Reply, Rule, aws_batch, bigquery_insert, elasticsearch_bulk, odata, unfinished
from perdure.faults.signal import Signal, signal_of

T, R, A, S, P = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
)


def bulk(*statuses: int) -> dict[str, Any]:
    items = [{"index": {"_id": "1", "status": status}} for status in statuses]
    return {"took": 1, "errors": any(status >= 400 for status in statuses), "items": items}


def batch(*statuses: int | str, headers: Any = None) -> dict[str, Any]:
    named = enumerate(statuses, 1)
    return {"responses": [{"id": str(one), "status": status, "headers": headers} for one, status in named]}


def failed(*codes: str, sender: bool = False, done: int = 0) -> dict[str, Any]:
    entries = [{"Id": f"m{at}", "SenderFault": sender, "Code": code} for at, code in enumerate(codes)]
    return {"Failed": entries, "Successful": [{"Id": "ok"}] * done}


def records(*codes: str | None) -> dict[str, Any]:
    entries = [{} if code is None else {"ErrorCode": code} for code in codes]
    return {"FailedRecordCount": sum(code is not None for code in codes), "Records": entries}


def rows(*reasons: str) -> dict[str, Any]:
    return {
        "insertErrors": [{"index": at, "errors": [{"reason": reason}]} for at, reason in enumerate(reasons)]
    }


THROUGHPUT = "ProvisionedThroughputExceededException"


@pytest.mark.parametrize(
    ("rule", "document", "kind", "names"),
    [
        (elasticsearch_bulk, bulk(429, 429), R, [0, 1]),
        (elasticsearch_bulk, bulk(201, 429, 429), A, [1, 2]),
        (elasticsearch_bulk, bulk(400, 429), A, [1]),
        (elasticsearch_bulk, bulk(400, 409), P, []),
        (elasticsearch_bulk, bulk(503), A, [0]),
        (odata, batch(429, 429), R, ["1", "2"]),
        (odata, batch(200, "429"), A, ["2"]),
        (odata, batch(404, 200), P, []),
        (odata, batch(401), S, []),
        (aws_batch, {"UnprocessedItems": {"orders": [{}]}}, A, ["orders"]),
        (aws_batch, {"UnprocessedKeys": {"orders": {}}}, A, ["orders"]),
        (aws_batch, failed("InternalFailure"), A, ["m0"]),
        (aws_batch, failed("ThrottlingException", done=1), A, ["m0"]),
        (aws_batch, failed("ThrottlingException"), R, ["m0"]),
        (aws_batch, failed("InvalidMessageContents", sender=True, done=3), P, []),
        (aws_batch, failed("SomethingNew"), A, ["m0"]),
        (aws_batch, records(THROUGHPUT, None), A, [0]),
        (aws_batch, records(THROUGHPUT, "InternalFailure"), R, [0, 1]),
        (aws_batch, {"FailedPutCount": 1, "RequestResponses": [{"ErrorCode": "ServiceUnavailable"}]}, T, [0]),
        (aws_batch, {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "MalformedDetail"}]}, P, []),
        (bigquery_insert, rows("backendError", "stopped"), A, [0, 1]),
        (bigquery_insert, rows("invalid", "stopped"), A, [1]),
        (bigquery_insert, rows("invalid"), P, []),
        (bigquery_insert, rows("rateLimitExceeded"), R, [0]),
    ],
)
def test_a_batch_is_what_its_items_are(rule: Rule, document: Any, kind: FaultKind, names: list[Any]) -> None:
    fault = rule(Reply(200, None, json.dumps(document).encode()))
    assert fault is not None
    assert fault.kind is kind
    assert fault.why.startswith("HTTP ")
    assert unfinished(document) == names


def test_the_longest_delay_of_the_items_counts() -> None:
    document = batch(429, headers={"Retry-After": "10"})
    document["responses"].append({"id": "2", "status": 503, "headers": {"retry-after": "25"}})
    fault = odata(Reply.of(document))
    assert fault is not None
    assert (fault.kind, fault.hint) == (R, 25.0)
    assert fault.why == "HTTP 429 Too Many Requests in 2 of 2 responses"


def test_the_body_of_an_item_is_read_as_well() -> None:
    broke = {"responses": [{"id": "1", "status": 429, "body": {"error": {"code": "insufficient_quota"}}}]}
    fault = odata(Reply.of(broke))
    assert fault is not None
    assert fault.kind is P


@pytest.mark.parametrize("rule", [elasticsearch_bulk, odata, aws_batch, bigquery_insert])
@pytest.mark.parametrize(
    "document",
    [
        *(
            {},
            [],
            None,
            bulk(200, 201),
            batch(200, 204),
            failed(done=2),
            records(None),
            {"UnprocessedItems": {}},
        ),
        *(
            {"errors": True},
            {"errors": True, "items": 7},
            {"responses": {}},
            {"insertErrors": []},
            {"Failed": None},
        ),
        *(
            {"errors": True, "items": [None, {}, {"index": {"status": "x"}}]},
            {"responses": [7, {"status": "4x9"}]},
        ),
    ],
)
def test_a_batch_without_failures_is_well(rule: Rule, document: Any) -> None:
    assert rule(Reply.of(document)) is None
    assert unfinished(document) == []


def test_an_error_status_says_it_all() -> None:
    assert elasticsearch_bulk(Reply.of(bulk(429), 503)) is None


def test_an_entry_with_a_code_that_nobody_knows_is_no_sign_of_congestion() -> None:
    fault = aws_batch(Reply.of(failed("QueueTimeoutExceeded", "Other")))
    assert fault is not None
    assert fault.why == 'HTTP 200, "QueueTimeoutExceeded" in 2 of 2 entries'
    assert signal_of(RuntimeError(), fault, wanted=True) is Signal.FAILURE
