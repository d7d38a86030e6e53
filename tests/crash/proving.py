"""Scenario: a client proves a token that another client has, and asks again for as long as it gets no answer.

It registers the token, or gives it to the subscription that it has already. At every moment each token has one owner.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import boto3
from pynamodb.connection import Connection

from api.app import handle
from api.settings import ApiSettings
from api.worker import ApiWorker
from clarion import subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue, erase_dead
from clarion.decisions import SubscriptionStatus
from clarion.messages import CleanupMessage, PushMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.rules import key_of
from clarion.rulesets import Owner, RequestContext, RuleSets
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token, rule_key
from clarion.tokens import token_hash
from tests.codes import code_of
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

KEY = key_of(bytes(32), bytes(32))
PATH = "/v1/subscriptions"


class Unanswered(Exception):  # noqa: N818 - not an error of ours
    """The request is to be sent again."""


@dataclass
class Proving:
    """`replaces`: by another token for a subscription that is there, with rules."""

    connection: Connection
    cleanup_url: str
    push_url: str
    replaces: bool

    def __post_init__(self) -> None:
        self._token, self._token_before = uuid4().hex * 2, uuid4().hex * 2
        self._holder, self._client = (Owner(STATEMENTS, uuid4().bytes * 2) for _ in range(2))
        self.stop()
        self._held = self._made(self._holder, self._token)
        self._name = self._made(self._client, self._token_before) if self.replaces else None
        self._codes = list[str]()

    def _made(self, owner: Owner, token: str) -> str:
        row = subscriptions.register(self.connection, Registration(*owner, Channel.APNS, token), now=NOW)
        assert isinstance(row, Subscription)
        self._worker.rule_sets.add(row.subscription_id, owner, {KEY: b""}, RequestContext(NOW))
        return row.subscription_id

    def deliver(self) -> bool:
        try:
            name = self._ask()
            self._prove(name)
            wire.step(RETURN)
        except Unanswered:
            return False
        finally:
            with wire.aside():
                self._check_owners()
        self._name = name
        return True

    def _ask(self) -> str:
        body = {"notificationType": "apns", "token": self._token}
        if self.replaces:
            status, answer = self._send("PUT", f"{PATH}/{self._name}/token", body)
            assert status == 200, answer
        else:
            status, answer = self._send("POST", PATH, body)
            assert status in {201, 409}, answer
        return str(answer["subscription_id"])

    def _prove(self, name: str) -> None:
        """By the codes that came, the last one first; if none is good, by another."""
        path = f"{PATH}/{name}/proof"
        for code in reversed(self._received(name)):
            status, answer = self._send("POST", path, {"code": code})
            if status == 200:
                return
            assert status in {403, 409}, answer
        status, answer = self._send("POST", f"{path}/request")
        assert status == 202, answer
        raise Unanswered

    def _received(self, name: str) -> list[str]:
        """What the phone has got so far."""
        with wire.aside():
            sqs = boto3.client("sqs")
            while found := sqs.receive_message(QueueUrl=self.push_url, MaxNumberOfMessages=10).get("Messages"):
                for each in found:
                    sqs.delete_message(QueueUrl=self.push_url, ReceiptHandle=each["ReceiptHandle"])
                    push = PushMessage.model_validate_json(each["Body"])
                    row = Subscription.get(str(push.subscription_id), consistent_read=True)
                    if row.subscription_id == name and row.proof_receipt == str(push.receipt):
                        self._codes.append(code_of(push))
        return self._codes

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"content-type": "application/json"},
            "requestContext": {
                "http": {"method": method, "path": path},
                "stage": "$default",
                "authorizer": {"lambda": {"client_id": self._client.client_id.hex()}},
            },
            "body": json.dumps(body) if body else None,
            "isBase64Encoded": False,
        }
        found = handle(event, cast("LambdaContext", None), self._worker)
        if found["statusCode"] >= 500:
            raise Unanswered
        return found["statusCode"], json.loads(found["body"] or "{}")

    def stop(self) -> None:
        with wire.aside():
            cleanup = CleanupQueue(boto3.client("sqs"), self.cleanup_url)
            settings = ApiSettings(
                table_prefix=PREFIX,
                events_stream="lake",
                late_events_queue_url="late-events",
                lake_bucket="lake",
                cleanup_queue_url=self.cleanup_url,
                push_queues=json.dumps({Channel.APNS: self.push_url}),
                apps=json.dumps({Channel.APNS: ["first"]}),
                requests_per_ten_seconds=1_000,
            )
            made = ApiWorker.open(settings)
            sets = RuleSets(made.connection, limit=100, request_cleanup=cleanup.send_claim, sleep=lambda _: None)
            self._worker = replace(made, rule_sets=sets, now=lambda: NOW)

    def check(self) -> None:
        assert self._name, "no answer came"
        self._clean_up()
        held, row = (Subscription.get(name, consistent_read=True) for name in (self._held, self._name))
        assert _owners(self._token) == [self._name], "the token is not the prover's"
        assert row.status == SubscriptionStatus.ACTIVE, "the subscription is not active"
        assert (held.status, held.status_reason) == ("invalid", "replaced"), "the other has not ended"
        assert _in_force(held) == _in_force(row) - self.replaces == 0, "rules came or went"
        assert RuleRow.count(self._held, consistent_read=True) == 0, "the clean-up left rules over"
        of_client = subscriptions.of_owner(self._client)
        assert [one.subscription_id for one in of_client] == [self._name], "there are more than it asked for"

    def _check_owners(self) -> None:
        """The holder has the token, or else the prover, of whose pending subscriptions none owns anything."""
        rows = [*subscriptions.of_owner(self._holder), *subscriptions.of_owner(self._client)]
        active = {row.token: row.subscription_id for row in rows if row.status == SubscriptionStatus.ACTIVE}
        assert self._token in active, "nobody has the token"
        assert len(active) == sum(row.status == SubscriptionStatus.ACTIVE for row in rows), "two have the token"
        for token in (self._token, self._token_before):
            assert _owners(token) == ([active[token]] if token in active else []), "the tokens' table says otherwise"

    def _clean_up(self) -> None:
        """As the queue's function would, of the subscription that ends."""
        sqs = boto3.client("sqs")
        while found := sqs.receive_message(QueueUrl=self.cleanup_url, MaxNumberOfMessages=10).get("Messages"):
            for each in found:
                message = CleanupMessage.model_validate_json(each["Body"])
                sqs.delete_message(QueueUrl=self.cleanup_url, ReceiptHandle=each["ReceiptHandle"])
                if self._held in {str(one) for one in message.subscription_ids}:
                    erase_dead(self.connection, self._held, message.through)


def _owners(token: str) -> list[str]:
    found = Token.query(token_hash(Channel.APNS, token), consistent_read=True)
    return [row.subscription_id for row in found]


def _in_force(row: Subscription) -> int:
    first, end = (rule_key(int(row.generation) + more, b"") for more in (0, 1))
    return RuleRow.count(row.subscription_id, RuleRow.rule_key.between(first, end), consistent_read=True)


def scenario(*, replaces: bool) -> Scenario:
    connection, sqs = tables.bind(PREFIX), boto3.client("sqs")
    name = "another token" if replaces else "takeover"
    cleanup_url = sqs.create_queue(QueueName=f"crash-{name.replace(' ', '-')}-cleanup")["QueueUrl"]
    push_url = sqs.get_queue_url(QueueName=Channel.APNS)["QueueUrl"]
    return Scenario(name, lambda: Proving(connection, cleanup_url, push_url, replaces))
