import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest

from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.metrics import Metric, decided, metrics_of
from clarion.providers.transport import Transport
from clarion.tables import Subscription
from dispatch import handler as lambda_module
from dispatch.batch import BatchReport
from infra.environments import PROD
from local import keys, tls
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.fcm import Fcm
from local.provider import InjectedFault
from tests.standins import PATIENT, counted_seconds

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

BUNDLE = "io.pcf.polkadotapp"
TOKEN = "a1" * 32

TIMEOUT_S = PROD.dispatch.size.timeout_s

type Invoke = Callable[[Channel, PushMessage], dict[str, Any]]


@contextmanager
def hanging(service: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients of AWS's service that are made within get no answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        patch.setenv(f"AWS_ENDPOINT_URL_{service}", f"http://127.0.0.1:{silent.getsockname()[1]}")
        yield


@pytest.fixture
def apns(run: Callable[[Apns], Apns], localhost: tls.Localhost, apns_key: keys.ApnsKeyPair) -> Apns:
    return run(Apns(localhost.server_context(), known=[apns_key], topics=[BUNDLE]))


@pytest.fixture
def fcm(run: Callable[[Fcm], Fcm], localhost: tls.Localhost, account: keys.ServiceAccount) -> Fcm:
    return run(Fcm(localhost.server_context(), account=account))


@pytest.fixture
def invoke(
    aws: None,
    monkeypatch: pytest.MonkeyPatch,
    localhost: tls.Localhost,
    apns_key: keys.ApnsKeyPair,
    account: keys.ServiceAccount,
    apns: Apns,
    fcm: Fcm,
) -> Iterator[Invoke]:
    """Send a message through SQS to the Lambda of its channel; returns what the Lambda answers."""
    sqs, firehose, secrets = boto3.client("sqs"), boto3.client("firehose"), boto3.client("secretsmanager")
    queue = sqs.create_queue(QueueName="pushes")["QueueUrl"]
    boto3.client("s3").create_bucket(Bucket="lake")
    firehose.create_delivery_stream(
        DeliveryStreamName="events",
        S3DestinationConfiguration={"RoleARN": "arn:aws:iam::1:role/lake", "BucketARN": "arn:aws:s3:::lake"},
    )
    apns_secret = {"key_id": apns_key.key_id, "team_id": apns_key.team_id, "private_key": apns_key.private_key}
    secrets.create_secret(Name="apns", SecretString=json.dumps(apns_secret))
    secrets.create_secret(Name="fcm", SecretString=account.as_json(fcm.token_uri))
    monkeypatch.setattr(lambda_module, "Transport", partial(Transport, timeouts=PATIENT))

    def invoke(channel: Channel, message: PushMessage) -> dict[str, Any]:
        lambda_module._worker.cache_clear()
        settings = {
            "stage": "blue",
            "table_prefix": "",
            "queue_url": queue,
            "channel": channel.value,
            "events_stream": "events",
            "late_events_queue_url": "late-events",
            "cleanup_queue_url": sqs.create_queue(QueueName="cleanup")["QueueUrl"],
            "provider_secret_id": "fcm" if channel is Channel.FCM else "apns",
            "bundle_id": BUNDLE,
            "apns_url": apns.url,
            "fcm_url": fcm.url,
            "ca_file": str(localhost.ca_file),
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"CLARION_{name.upper()}", value)
        sqs.send_message(QueueUrl=queue, MessageBody=message.to_json())
        (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        record = {
            "messageId": received["MessageId"],
            "receiptHandle": received["ReceiptHandle"],
            "body": received["Body"],
            "attributes": {"ApproximateReceiveCount": "1"},
        }
        end = time.monotonic() + TIMEOUT_S
        left = SimpleNamespace(get_remaining_time_in_millis=lambda: round(1000 * (end - time.monotonic())))
        answer: dict[str, Any] = lambda_module.handler({"Records": [record]}, cast("LambdaContext", left))
        return answer

    yield invoke
    lambda_module._worker.cache_clear()


@pytest.fixture
def message(message: Callable[..., PushMessage]) -> Callable[..., PushMessage]:
    def just_observed(row: Subscription) -> PushMessage:
        now = time.time()
        return message(row, observed_at=int(now * 1000), expires_at=int(now) + 600)

    return just_observed


def test_what_any_stranger_may_have_refused_is_counted_where_no_alarm_looks(capsys: pytest.CaptureFixture[str]) -> None:
    report = BatchReport(token_faults=2, strangers_gone=3)
    report.decisions.update({PushDecision.TOKEN_GONE: 4, PushDecision.REFUSED: 2})
    lambda_module._record(report, 0, metrics_of("dispatch", "blue"))
    recorded = json.loads(capsys.readouterr().out)
    assert recorded[Metric.TOKEN_FAULTS] == [5]
    assert recorded[decided(PushDecision.TOKEN_GONE)] == [1]
    assert decided(PushDecision.REFUSED) not in recorded


def test_an_alert_reaches_apns_as_apple_asks_for_it(
    invoke: Invoke, apns: Apns, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    sent = message(register(Channel.APNS, TOKEN))

    assert invoke(Channel.APNS, sent) == {"batchItemFailures": []}

    (push,) = apns.received
    assert push.accepted
    assert push.token == TOKEN
    assert push.headers["apns-topic"] == BUNDLE
    assert push.headers["apns-push-type"] == "alert"
    assert push.headers["apns-priority"] == "10"
    assert push.headers["apns-expiration"] == str(sent.expires_at)
    assert push.headers["apns-collapse-id"] == sent.envelope_id.hex()
    assert push.payload["statement"]["data"] == b"hello".hex()


def test_a_call_reaches_apns_as_a_voip_push_that_is_never_stored(
    invoke: Invoke, apns: Apns, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    assert invoke(Channel.VOIP, message(register(Channel.VOIP, TOKEN))) == {"batchItemFailures": []}

    (push,) = apns.received
    assert push.accepted
    assert push.headers["apns-topic"] == f"{BUNDLE}.voip"
    assert push.headers["apns-push-type"] == "voip"
    assert push.headers["apns-expiration"] == "0"
    assert push.payload["aps"] == {}


def test_a_push_for_android_reaches_fcm_with_the_statements_lifetime(
    invoke: Invoke, fcm: Fcm, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    statement = message(register(Channel.FCM, "an-fcm-token"))

    assert invoke(Channel.FCM, statement) == {"batchItemFailures": []}

    (push,) = fcm.received
    assert push.accepted
    sent = push.payload["message"]
    assert sent["data"]["statement_data"] == b"hello".hex()
    assert sent["android"]["priority"] == "high"
    left = statement.expires_at - push.at
    assert int(left) <= int(sent["android"]["ttl"].removesuffix("s")) <= 600


def test_a_dead_token_ends_its_subscription(
    invoke: Invoke, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")))

    assert invoke(Channel.APNS, message(row)) == {"batchItemFailures": []}

    row.refresh()
    assert (row.status, row.status_reason) == ("invalid", "Unregistered")


def test_a_provider_in_trouble_leaves_the_message_in_the_queue(
    invoke: Invoke, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")))

    assert len(invoke(Channel.APNS, message(row))["batchItemFailures"]) == 1

    row.refresh()
    assert row.status == "active"


def test_a_subscription_deleted_since_the_match_gets_nothing(
    invoke: Invoke, apns: Apns, register: Callable[..., Subscription], message: Callable[..., PushMessage]
) -> None:
    row = register(Channel.APNS, TOKEN)
    row.delete()

    assert invoke(Channel.APNS, message(row)) == {"batchItemFailures": []}

    assert len(apns.received) == 0


def test_what_became_of_pushes_is_counted_for_the_stage(
    invoke: Invoke,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
    capsys: pytest.CaptureFixture[str],
) -> None:
    invoke(Channel.APNS, message(register(Channel.APNS, TOKEN)))

    (recorded,) = (json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    assert (recorded["service"], recorded["stage"]) == ("dispatch", "blue")
    assert len(recorded["latency"]) == 1
    assert "push_delivered" not in recorded


def test_neither_logs_nor_metrics_nor_reprs_tell_a_token_or_key(
    invoke: Invoke,
    apns_key: keys.ApnsKeyPair,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = troubled_token(InjectedFault("TopicDisallowed"))
    invoke(Channel.APNS, message(register(Channel.APNS, token)))

    dispatcher, _ = lambda_module._worker()
    logged = "".join(str(vars(line)) for line in caplog.records)
    written = "".join(capsys.readouterr()) + logged + repr(dispatcher)
    assert "push_misconfigured" in written
    assert "TopicDisallowed" in written
    assert token not in written
    assert apns_key.private_key[40:80] not in written
    assert "eyJ" not in written


def test_secrets_manager_may_be_silent_and_the_message_just_waits(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = register(Channel.APNS, TOKEN)
    with hanging("SECRETS_MANAGER", monkeypatch), counted_seconds() as seconds:
        assert len(invoke(Channel.APNS, message(row))["batchItemFailures"]) == 1
        assert seconds() < TIMEOUT_S / 2
    assert "push_retry" in capsys.readouterr().out


def test_an_invocation_ends_in_time_with_its_pushes_counted_although_the_queues_hang(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")))
    with hanging("SQS", monkeypatch), counted_seconds() as seconds:
        assert len(invoke(Channel.APNS, message(row))["batchItemFailures"]) == 1
        assert seconds() < TIMEOUT_S / 2
    assert "push_retry" in capsys.readouterr().out


def test_a_table_that_hangs_has_its_messages_wait_and_nothing_is_sent(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    apns: Apns,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
) -> None:
    row = register(Channel.APNS, TOKEN)
    with hanging("DYNAMODB", monkeypatch), counted_seconds() as seconds:
        assert len(invoke(Channel.APNS, message(row))["batchItemFailures"]) == 1
        assert seconds() < TIMEOUT_S / 2
    assert len(apns.received) == 0
