"""Rules for answers about many items, each of which failed or did not.

If all failed, the answer is what they are. If some did, the others are done: to repeat the whole acts again on
these, so what is worth another attempt is ambiguous. `unfinished` says which items to send again instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.content.rules import Reply, Rule
from perdure.content.words import kind_of, shown
from perdure.faults.documents import fields, listed
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import RETRIED, Fault, FaultKind
from perdure.faults.signal import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

__all__ = ["aws_batch", "bigquery_insert", "elasticsearch_bulk", "odata", "unfinished"]


if TYPE_CHECKING:
    # What names an item in its protocol, and its fault: None when it is done.
    Item: TypeAlias = tuple[Any, Fault | None]
    Items: TypeAlias = Callable[[dict[str, Any]], Iterator[Item]]


def _by_code(code: object) -> Fault:
    return Fault(kind_of(code) or FaultKind.PERMANENT, None, shown(code))


# -- what the items of each protocol are -------------------------------------------------------------------


def _of_elasticsearch(document: dict[str, Any]) -> Iterator[Item]:
    if document.get("errors") is not True:
        return
    for position, item in enumerate(listed(document.get("items"))):
        result = fields(next(iter(fields(item).values()), None))
        yield (position, _by_status(result.get("status"), None, result))


def _of_odata(document: dict[str, Any]) -> Iterator[Item]:
    for response in listed(document.get("responses")):
        one = fields(response)
        yield (one.get("id"), _by_status(one.get("status"), one.get("headers"), one.get("body")))


def _by_status(status: object, headers: object, body: object) -> Fault | None:
    if isinstance(status, str) and status.isascii() and status.isdigit() and len(status) == 3:
        status = int(status)
    if not isinstance(status, int) or not 400 <= status <= 599:
        return None
    return fault_of_status(status, headers, None, body)


def _of_aws(document: dict[str, Any]) -> Iterator[Item]:
    for name in ("UnprocessedItems", "UnprocessedKeys"):  # DynamoDB
        for table in fields(document.get(name)):
            yield (table, Fault(FaultKind.THROTTLED, None, name))
        if document.get(name):
            yield (None, None)
    if isinstance(document.get("Failed"), list):  # SQS, SNS
        for entry in map(fields, document["Failed"]):
            fault = _by_code(entry.get("Code"))
            if entry.get("SenderFault") is False and fault.kind is FaultKind.PERMANENT:
                fault = Fault(FaultKind.AMBIGUOUS, None, quoted(fault.why))
            yield (entry.get("Id"), fault)
        yield from ((None, None) for _ in listed(document.get("Successful")))
    for count, name in _COUNTED.items():
        if document.get(count):
            for position, entry in enumerate(map(fields, listed(document.get(name)))):
                code = entry.get("ErrorCode")
                yield (position, None if code is None else _by_code(code))


_COUNTED = {
    "FailedRecordCount": "Records",
    "FailedPutCount": "RequestResponses",
    "FailedEntryCount": "Entries",
}
"""Kinesis, Firehose, EventBridge."""


def _of_bigquery(document: dict[str, Any]) -> Iterator[Item]:
    """Which rows were not inserted; how many there were in all, the answer does not say."""
    for row in map(fields, listed(document.get("insertErrors"))):
        reasons = [fields(error).get("reason") for error in listed(row.get("errors"))]
        kinds = [_by_code(reason) for reason in reasons if reason != "stopped"]
        stopped = Fault(FaultKind.AMBIGUOUS, None, "stopped")  # not inserted, because others were bad
        yield (
            row.get("index"),
            next((one for one in kinds if one.kind not in RETRIED), kinds[0] if kinds else stopped),
        )


# -- rules -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judge:
    """Makes one fault of the items of a document."""

    items: Items
    what: str

    def __call__(self, reply: Reply) -> Fault | None:
        items = [] if reply.status >= 400 else list(self.items(fields(reply.json())))
        failed = [fault for _, fault in items if fault is not None]
        if not failed:
            return None
        again = [fault for fault in failed if fault.kind in RETRIED]
        chosen = next((one for kind in _ORDER for one in again if one.kind is kind), failed[0])
        kind = chosen.kind if len(again) == len(items) or not again else FaultKind.AMBIGUOUS
        hints = [fault.hint for fault in again if fault.hint is not None]
        why = f"{chosen.why} in {len(failed)} of {len(items)} {self.what}"
        prefix = "" if why.startswith("HTTP ") else f"HTTP {reply.status}, "
        return Fault(kind, max(hints, default=None), prefix + why)


_ORDER = (FaultKind.THROTTLED, FaultKind.AMBIGUOUS, FaultKind.TRANSIENT)

elasticsearch_bulk: Rule = Rule("elasticsearch_bulk", "whole", _Judge(_of_elasticsearch, "items"))
"""`_bulk` of Elasticsearch and OpenSearch: the status of each item."""

odata: Rule = Rule("odata", "whole", _Judge(_of_odata, "responses"))
"""`$batch` of OData and of Microsoft Graph: the status of each response."""

aws_batch: Rule = Rule("aws_batch", "whole", _Judge(_of_aws, "entries"))
"""Batches of DynamoDB, SQS, SNS, Kinesis, Firehose and EventBridge."""

bigquery_insert: Rule = Rule("bigquery_insert", "whole", _Judge(_of_bigquery, "rows"))
"""`tabledata.insertAll` of BigQuery."""


def unfinished(result: object) -> list[Any]:
    """Name the items of a batch that failed in a way that another attempt may cure.

    `result` is the parsed document of one of the batch rules. Items are named as their protocol does: positions
    from 0 (Elasticsearch, Kinesis, Firehose, EventBridge), `index` (BigQuery), `id` (OData), `Id` (SQS, SNS),
    tables (DynamoDB). Never raises. Safe from any thread or task.
    """
    document = fields(result)
    readers: tuple[Items, ...] = (_of_elasticsearch, _of_odata, _of_aws, _of_bigquery)
    items = [item for reader in readers for item in reader(document)]
    return [name for name, fault in items if fault is not None and fault.kind in RETRIED]
