"""Failures inside answers whose status says that all is well.

A rule looks at a `Reply` and says what failure it is, or None. HTTP integrations take one as `content=`; for plain
functions `rejects(rule)` makes a predicate for `Retry(reject=...)`. Rules look at 65,536 bytes at most, and never
raise, whatever the body is.
"""

from __future__ import annotations

from perdure.content.batches import aws_batch, bigquery_insert, elasticsearch_bulk, odata, unfinished
from perdure.content.documents import graphql, graphql_strict, json, json_rpc, slack
from perdure.content.markup import s3, soap
from perdure.content.results import rejects
from perdure.content.rules import Reply, Rule, every, rule
from perdure.content.streams import ndjson, sse

__all__ = [
    "Reply",
    "Rule",
    "aws_batch",
    "bigquery_insert",
    "elasticsearch_bulk",
    "every",
    "graphql",
    "graphql_strict",
    "json",
    "json_rpc",
    "ndjson",
    "odata",
    "rejects",
    "rule",
    "s3",
    "slack",
    "soap",
    "sse",
    "unfinished",
]
