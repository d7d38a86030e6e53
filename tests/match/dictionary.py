"""AWS as a few dictionaries behind botocore's own hooks: ten times as quick as the emulation, for what takes very many
requests. It knows no more than what match asks of it, and under which conditions.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.model import OperationModel
from pynamodb.models import Model

from clarion.messages import MatchMessage, read_match_message
from clarion.tables import PushRecord, RateLimit, RuleRow, Subscription
from match.worker import MatchClients

type Item = dict[str, dict[str, Any]]

_KEYS: dict[type[Model], tuple[str, ...]] = {
    Subscription: ("subscription_id",),
    RuleRow: ("subscription_id", "rule_key"),
    PushRecord: ("subscription_id", "envelope_id"),
    RateLimit: ("scope", "part"),
}


class Sent(NamedTuple):
    queue_url: str
    body: str


class Dictionary:
    """`sent` is what came to any queue, `lost` how many writes of a window came too late.

    A `lax` one writes whatever came between.
    """

    def __init__(self, *, lax: bool = False) -> None:
        self.sent: list[Sent] = []
        self.lost = 0
        self._lax = lax
        self._keys = {model.Meta.table_name: key for model, key in _KEYS.items()}
        self._rows: dict[tuple[Any, ...], Item] = {}
        self._scopes: dict[bytes, set[tuple[Any, ...]]] = defaultdict(set)
        self._index: dict[bytes, list[tuple[str, Item]]] = defaultdict(list)

    def keep(self, row: Model) -> None:
        """Put it there, free of charge."""
        item = row.serialize()
        self._rows[self._name(row.Meta.table_name, item)] = item
        if isinstance(row, RuleRow):
            rules = self._index[row.key]
            rules.insert(bisect_right(rules, row.subscription_id, key=_subscription), (row.subscription_id, item))

    def taken_from(self, queue_url: str) -> list[MatchMessage]:
        """The messages in a queue, which are gone from there now."""
        bodies = [body for url, body in self.sent if url == queue_url]
        self.sent = [sent for sent in self.sent if sent.queue_url != queue_url]
        return [read_match_message(body) for body in bodies]

    @contextmanager
    def answering(self, clients: MatchClients) -> Iterator[None]:
        services = (clients.dynamodb, clients.sqs, clients.firehose)
        hooks = [
            (client.meta.events, f"{moment}.{client.meta.service_model.service_name}", hook)
            for client in services
            for moment, hook in (("before-parameter-build", self.note), ("before-call", self.answer))
        ]
        for events, name, hook in hooks:
            events.register_first(name, hook)
        try:
            yield
        finally:
            for events, name, hook in hooks:
                events.unregister(name, hook)

    def note(self, params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context["asked"] = params

    def answer(self, model: OperationModel, context: dict[str, Any], **_: object) -> Any:
        asked = context["asked"]
        match model.name:
            case "GetItem":
                return _yes(_there(self._rows.get(self._name(asked["TableName"], asked["Key"]))))
            case "BatchGetItem":
                return _yes({"Responses": self._batch_get(asked["RequestItems"]), "UnprocessedKeys": {}})
            case "Query":
                return _yes(self._query(asked))
            case "PutItem":
                return self.put(asked)
            case "SendMessageBatch":
                self.sent += [Sent(asked["QueueUrl"], entry["MessageBody"]) for entry in asked["Entries"]]
                return _yes({"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]]})
            case "PutRecordBatch":
                return _yes({"FailedPutCount": 0, "RequestResponses": []})
        raise NotImplementedError(model.name)

    def put(self, asked: dict[str, Any]) -> Any:
        name = self._name(asked["TableName"], asked["Item"])
        there, values = self._rows.get(name), asked.get("ExpressionAttributeValues", {})
        if not self._lax and not _holds(asked.get("ConditionExpression"), there, values):
            self.lost += "version" in asked["ConditionExpression"]
            error = {"Error": {"Code": "ConditionalCheckFailedException", "Message": "as asked"}}
            return _answer(400, error | _there(there))
        self._rows[name] = asked["Item"]
        if "scope" in asked["Item"]:
            self._scopes[asked["Item"]["scope"]["B"]].add(name)
        return _yes({"Attributes": there} if there and asked.get("ReturnValues") == "ALL_OLD" else {})

    def _batch_get(self, asked: dict[str, Any]) -> dict[str, list[Item]]:
        return {
            table: [row for key in some["Keys"] if (row := self._rows.get(self._name(table, key)))]
            for table, some in asked.items()
        }

    def _query(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Of the rules' index, or of the limits. A query that goes on where another ended is none of match's."""
        values = asked["ExpressionAttributeValues"]
        if asked["TableName"] == RateLimit.Meta.table_name:
            return _found(self._parts(*(value["B"] for value in values.values())))
        rules = self._index[values[":0"]["B"]]
        first, end = 0, len(rules)
        if ":1" in values:
            first = bisect_left(rules, values[":1"]["S"], key=_subscription)
            end = bisect_right(rules, values[":2"]["S"], key=_subscription)
        return _found([item for _, item in rules[first:end][: asked["Limit"]]])

    def _parts(self, scope: bytes, since: bytes, until: bytes = b"\xff") -> list[Item]:
        """Of a scope's parts those after `since`, and up to `until`."""
        names = sorted(name for name in self._scopes[scope] if since < name[-1] <= until)
        return [self._rows[name] for name in names]

    def _name(self, table: str, item: Item) -> tuple[Any, ...]:
        return (table, *(next(iter(item[name].values())) for name in self._keys[table]))


def _found(items: list[Item]) -> dict[str, Any]:
    return {"Items": items, "Count": len(items), "ScannedCount": len(items)}


def _subscription(entry: tuple[str, Item]) -> str:
    return entry[0]


def _there(item: Item | None) -> dict[str, Item]:
    return {"Item": item} if item else {}


def _holds(condition: str | None, there: Item | None, values: Item) -> bool:
    if condition is None or there is None:
        return condition not in {"version = :seen", "#holder = :holder AND #ttl > :now"}
    if ":holder" in values:
        return values[":holder"] in (there.get("receipt"), there.get("token"))
    return ":seen" in values and there["version"] == values[":seen"]


def _yes(parsed: dict[str, Any]) -> Any:
    return _answer(200, parsed)


def _answer(status: int, parsed: dict[str, Any]) -> Any:
    return AWSResponse("", status, HTTPHeaders(), None), parsed
