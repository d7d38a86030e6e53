"""What commands read and write, and the messages that they send."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from aws_lambda_powertools.metrics import MetricUnit
from pynamodb.connection import Connection

from clarion import newest
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import Environment, Purpose, Wanted
from clarion.event_log import EventLog, EventWriter
from clarion.events import Event
from clarion.messages import PushMessage
from clarion.metrics import Metric, flush, metrics_of
from clarion.networks import SIMPLEX
from clarion.networks.simplex.commands import SimplexCommand, message_of
from clarion.networks.simplex.credentials import public_key
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import NtfRequest
from clarion.networks.simplex.ntf_commands import DeviceToken, NtfProvider, NtfRefusal
from clarion.networks.simplex.queues import FollowedQueue
from clarion.networks.simplex.settings import SimplexOptions
from clarion.networks.simplex.storage_key import ID_BYTES, StorageKey
from clarion.networks.simplex.tokens import StoredToken, TokenSecrets
from clarion.newest import NewestRow
from clarion.rows import plain
from clarion.secrets import Secret, SharedSecret
from clarion.tables import Subscription, find_row

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

CODE_SECONDS = 86_400
"""How long a push with a code is worth delivering. The code itself is good until the token is replaced or forgotten."""
NEWEST_PUSH_SECONDS = 86_400
"""How long a push of what came meanwhile is worth sending."""
_ENVIRONMENTS = {NtfProvider.APNS_SANDBOX: Environment.SANDBOX}


def authorized[Owned: (StoredToken, FollowedQueue)](row: Owned | None, request: NtfRequest) -> Owned:
    """`row`, if it is of whoever asks. Raises `NtfRefusal`, in a time that doesn't say whether there is one."""
    key = None if row is None else public_key(bytes(row.owner_key))
    if not request.is_authorized_by(key) or row is None:
        raise NtfRefusal(ErrorType.AUTH)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class NtfStore:
    """`clock` is in UNIX milliseconds. Requests may come from several threads."""

    connection: Connection
    secret: Secret[SharedSecret]
    options: SimplexOptions
    sqs: "SQSClient"
    push_queue_url: str
    command_queue_url: str
    items_table: str
    events: EventWriter
    stage: str
    clock: Callable[[], int] = now_ms

    @property
    def key(self) -> StorageKey:
        """Raises what reading a secret raises."""
        return StorageKey.of(self.secret.get())

    def find_token(self, token_id: str) -> StoredToken | None:
        """As it is now; an alias as it is. One whose time is over is gone, if it is there or not."""
        row = find_row(StoredToken, token_id)
        return None if row is None or row.is_over(self.clock()) else row

    def authorized_token(self, token_id: bytes, request: NtfRequest) -> StoredToken:
        """The owner's, as it is now. Raises `NtfRefusal`, in a time that doesn't say whether there is such a token."""
        # DynamoDB takes no empty key.
        row = self.find_token(token_id.hex()) if len(token_id) == ID_BYTES else None
        return authorized(None if row is None or row.alias_of else row, request)

    def find_queue(self, key: bytes) -> FollowedQueue | None:
        """Unless it has been given up, or its time is over."""
        row = next(iter(FollowedQueue.batch_get([key], consistent_read=True)), None)
        return None if row is None or row.ended or row.is_over(self.clock()) else row

    def opened(self, token: StoredToken) -> TokenSecrets:
        return TokenSecrets.unpack(self.key.open(bytes(token.secrets), token.id))

    def environment_of(self, token: DeviceToken) -> Environment:
        return _ENVIRONMENTS.get(token.provider, Environment.PRODUCTION)

    def newest(self, subscription_id: str) -> NewestRow:
        """What has come for it, as it is now."""
        asked = {"TableName": self.items_table, "Key": {"subscription_id": {"S": subscription_id}}}
        answer = self.connection.dispatch("GetItem", {**asked, "ConsistentRead": True})
        return newest.read(plain(answer.get("Item", {})))

    def push_code(self, row: Subscription) -> None:
        self._push(row, Purpose.VERIFICATION, Wanted.BACKGROUND, CODE_SECONDS, None)

    def push_newest(self, row: Subscription, number: int) -> None:
        """What has come while its token was not active, up to this number."""
        self._push(row, Purpose.REFRESH, Wanted.ALERT, NEWEST_PUSH_SECONDS, number)

    def send_command(self, command: SimplexCommand, delay: int) -> None:
        """`delay` is in seconds: by then the caller's write is done, or never will be."""
        body = message_of(command).to_json()
        self.sqs.send_message(QueueUrl=self.command_queue_url, MessageBody=body, DelaySeconds=delay)

    def record(self, *events: Event) -> None:
        log = EventLog(self.events)
        for event in events:
            log.add(event)
        if lost := log.flush():
            recorded = metrics_of(SIMPLEX, self.stage)
            recorded.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
            flush(recorded)

    def _push(self, row: Subscription, purpose: Purpose, wanted: Wanted, seconds: int, number: int | None) -> None:
        receipt, now = uuid4(), self.clock()
        push = PushMessage(
            network=SIMPLEX,
            purpose=purpose,
            receipt=receipt,
            observed_at=now,
            envelope_id=sha256(receipt.bytes).digest(),
            subscription_id=UUID(row.subscription_id),
            client_id=row.client_id,
            channel=Channel.APNS,
            wanted=wanted,
            expires_at=now // 1000 + seconds,
            number=number,
        )
        self.sqs.send_message(QueueUrl=self.push_queue_url, MessageBody=push.to_json())
