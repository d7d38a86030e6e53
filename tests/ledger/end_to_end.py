"""The way of a batch from ingest's sending to the provider, with the real code of each step; only AWS is emulated.

As deployed, and warm: secrets are read and connections are open. Statements have one topic and 400 bytes of data.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from itertools import batched
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from moto import mock_aws

from bench.dispatch import CALM, provider
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.event_log import EventWriter
from clarion.networks import SIMPLEX
from clarion.networks.simplex.needs import STORAGE_KEY
from clarion.providers.transport import Transport
from clarion.tables import Subscription
from dispatch import handler as dispatch
from infra.environments import PROD
from ingest.delivery.destinations import EnvelopeQueue, LakeStream
from ingest.delivery.outgoing import Outgoing
from local import keys, tls
from match.settings import MatchSettings
from match.worker import MatchClients, MatchWorker
from tests.ledger.relay import Relay, relay_to
from tests.ledger.stopwatch import PROVIDER_WAIT, SideBySide, Spent, stopwatch
from tests.match.ledger import PAGE
from tests.match.meter import Bill, meter
from tests.match.scene import PREFIX, Scene, Sender, credentials, deploy, received
from tests.standins import PATIENT

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

DATA = bytes(400)
BUNDLE = "io.pcf.polkadotapp"
STORAGE_TEXT = "s" * 64
"""Of SimpleX's storage key."""
BATCH = PROD.match.batch
"""Also the most that one request to SQS receives or deletes."""

type Work = Callable[[list[dict[str, Any]]], Any]
"""What a Lambda does with SQS's records."""


@dataclass
class Usage:
    """What one batch took. `log` is what the functions wrote, `sent` the bytes that went to the provider."""

    bill: Bill
    match: Spent
    dispatch: Spent
    log: str
    sent: int


@dataclass(frozen=True)
class EndToEnd:
    """One worker of each function, between the queues of a deployment."""

    settings: MatchSettings
    worker: MatchWorker
    relay: Relay
    log: StringIO = field(default_factory=StringIO)

    def deliver(self, senders: Sequence[Sender]) -> Usage:
        """Have one statement of each sender delivered to whoever wants it."""
        self.log.seek(0)
        self.log.truncate()
        batch = [self._observe(sender) for sender in senders]
        before = self.relay.sent
        with meter.running() as bill:
            self.ingest(batch)
            match = self.invoke(self.settings.queue_url, self.worker.handle)
            dispatched = self.invoke(self.settings.push_queues[Channel.APNS], dispatch_batch)
        return Usage(bill, match, dispatched, self.log.getvalue(), self.relay.sent - before)

    def new_pairs(self, count: int) -> list[Sender]:
        """So many senders, each with a phone of its own that wants their statements."""
        senders = [Sender() for _ in range(count)]
        for sender in senders:
            row = Scene(self.settings, self.worker.clients, sender=sender).subscribe()
            row.update([Subscription.token.set("a1" * 32)])
        return senders

    def _observe(self, sender: Sender) -> Outgoing:
        scene = Scene(self.settings, self.worker.clients, sender=sender)
        message = scene.observe(sender.states(data=DATA))
        assert message.raw is not None
        return Outgoing(
            network=message.network, receipt=message.receipt, observed_at=now_ms(), fingerprint=0, raw=message.raw
        )

    def ingest(self, batch: Sequence[Outgoing]) -> None:
        settings = self.settings
        queue = EnvelopeQueue(boto3.client("sqs"), settings.queue_url, boto3.client("s3"), settings.oversize_bucket)
        lake = LakeStream(EventWriter(boto3.client("firehose"), boto3.client("sqs"), settings))
        assert queue.send(batch) == lake.put(batch) == []

    def invoke(self, queue_url: str, work: Work, receives: int = 1) -> Spent:
        """Once, as Lambda's event source does: receive a batch by so many requests, hand it over, delete it."""
        sqs = boto3.client("sqs")
        receive = partial(sqs.receive_message, QueueUrl=queue_url, MaxNumberOfMessages=BATCH)
        messages = [message for _ in range(receives) for message in receive()["Messages"]]
        records = [received(one["MessageId"], one["Body"], handle=one["ReceiptHandle"]) for one in messages]
        with redirect_stdout(self.log), loggers_to(self.log), stopwatch.running() as spent:
            assert work(records) == []
        entries = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in messages]
        for ten in batched(entries, BATCH, strict=False):
            sqs.delete_message_batch(QueueUrl=queue_url, Entries=ten)  # type: ignore[arg-type] # the stub's TypedDict
        return spent


@contextmanager
def deployed_stages() -> Iterator[EndToEnd]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keys.generate(folder)
        relay = stack.enter_context(relay_to(int(stack.enter_context(provider(CALM, folder)))))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        _set(patch, credentials())
        stack.enter_context(mock_aws())
        deployed = deploy()
        _set(patch, _of_dispatch(deployed, folder, relay))
        patch.setattr(dispatch, "Transport", partial(Transport, timeouts=PATIENT))
        dispatch._worker.cache_clear()
        stack.callback(dispatch._worker.cache_clear)
        settings = MatchSettings.from_environment(deployed | {"CLARION_FAN_OUT_PAGE": str(PAGE)})
        clients = MatchClients.make(PREFIX)._replace(executor=SideBySide())
        yield EndToEnd(settings, MatchWorker.open(settings, clients), relay)


def _of_dispatch(deployed: Mapping[str, str], folder: Path, relay: Relay) -> dict[str, str]:
    key = keys.load_apns_key(folder)
    secret = {"key_id": key.key_id, "team_id": key.team_id, "private_key": key.private_key}
    secrets = {"apns": secret, STORAGE_KEY: {"secret": STORAGE_TEXT}}
    for name, content in secrets.items():
        boto3.client("secretsmanager").create_secret(Name=name, SecretString=json.dumps(content))
    commands = boto3.client("sqs").create_queue(QueueName="commands")["QueueUrl"]
    settings = {
        "stage": PROD.stage,
        "table_prefix": PREFIX,
        "events_stream": deployed["CLARION_EVENTS_STREAM"],
        "late_events_queue_url": deployed["CLARION_LATE_EVENTS_QUEUE_URL"],
        "queue_url": deployed["CLARION_APNS_QUEUE_URL"],
        "channel": Channel.APNS,
        "cleanup_queue_url": "unused",
        "provider_secret_id": "apns",
        "payload_secrets": json.dumps({SIMPLEX: STORAGE_KEY}),
        "command_queues": json.dumps({SIMPLEX: commands}),
        "bundle_id": BUNDLE,
        "apns_url": relay.url,
        "ca_file": str(tls.Localhost.within(folder).ca_file),
    }
    return {f"CLARION_{name.upper()}": value for name, value in settings.items()}


def dispatch_batch(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    stopwatch.waited += PROVIDER_WAIT
    context = cast("LambdaContext", SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000))
    return dispatch.handler({"Records": records}, context)["batchItemFailures"]


def _set(patch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        patch.setenv(name, value)


@contextmanager
def loggers_to(log: StringIO) -> Iterator[None]:
    """A logger keeps the stream that it found when it was made."""
    handlers = [
        handler
        for service in ("match", "dispatch", "api")
        for handler in logging.getLogger(service).handlers
        if isinstance(handler, logging.StreamHandler)
    ]
    before = [handler.setStream(log) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            if stream is not None:
                handler.setStream(stream)
