"""What goes wrong sounds its alarm and waits among the dead letters, from where it can be brought to the phone."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from clarion.clock import now_ms
from clarion.messages import EnvelopeMessage
from clarion.networks import STATEMENTS
from infra.alarms import alarm_specs
from infra.environments import EMULATOR
from local.apns_trouble import troubled_token
from local.device import Device, topic_of
from local.provider import InjectedFault
from local.system import PATIENCE, System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

CHAT = topic_of("a chat that meets with trouble")
ARN = "arn:aws:sqs:us-east-1:000000000000:"

type Message = dict[str, Any]


class Queue:
    """One of Clarion's, by its bare name, as an operator gets at it."""

    def __init__(self, system: System, name: str) -> None:
        self.name = f"{system.deployment.outputs.table_prefix}{name}"
        self._sqs = system.client("sqs")
        self._url = self._sqs.get_queue_url(QueueName=self.name)["QueueUrl"]

    async def put(self, body: str) -> None:
        await asyncio.to_thread(self._sqs.send_message, QueueUrl=self._url, MessageBody=body)

    async def attribute(self, name: str) -> str:
        answer = await asyncio.to_thread(self._sqs.get_queue_attributes, QueueUrl=self._url, AttributeNames=[name])
        return str(answer["Attributes"][name])

    async def take(self) -> Message:
        """The next message, which is gone from the queue then; waits for it."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await asyncio.to_thread(self._receive)):
                await asyncio.sleep(0.1)
        await asyncio.to_thread(self._sqs.delete_message, QueueUrl=self._url, ReceiptHandle=found[0]["ReceiptHandle"])
        return found[0]

    def _receive(self) -> list[Message]:
        answer = self._sqs.receive_message(QueueUrl=self._url, MessageAttributeNames=["All"])
        messages: list[Message] = answer.get("Messages", [])
        return messages

    async def until_visible(self) -> int:
        async with asyncio.timeout(PATIENCE):
            while not (count := int(await self.attribute("ApproximateNumberOfMessages"))):
                await asyncio.sleep(0.1)
        return count

    @asynccontextmanager
    async def hurried(self, receives: int) -> AsyncIterator[None]:
        """Gives a message up after so many attempts, which follow each other at once."""
        kept = {name: await self.attribute(name) for name in ("VisibilityTimeout", "RedrivePolicy")}
        policy = {**json.loads(kept["RedrivePolicy"]), "maxReceiveCount": receives}
        await self._set({"VisibilityTimeout": "1", "RedrivePolicy": json.dumps(policy)})
        try:
            yield
        finally:
            await self._set(kept)

    async def _set(self, attributes: dict[str, str]) -> None:
        await asyncio.to_thread(self._sqs.set_queue_attributes, QueueUrl=self._url, Attributes=attributes)


async def redrive(system: System, name: str, mend: Callable[[str], str] = str) -> None:
    """Take the oldest dead letter back to its queue: what StartMessageMoveTask does, which the emulator lacks."""
    letter = await Queue(system, f"{name}-dead").take()
    await Queue(system, name).put(mend(letter["Body"]))


class Alarm:
    """One that the stack defines, put up in the emulator, with somebody who hears it."""

    def __init__(self, system: System, name: str) -> None:
        (self._watch,) = (spec for spec in alarm_specs(EMULATOR, system.deployment.outputs.api_id) if spec.name == name)
        config = self._watch.metric.to_metric_config().metric_stat
        assert config
        self.dimensions = {each.name: str(each.value) for each in config.dimensions or []}
        self._metric = {
            "Namespace": config.namespace,
            "MetricName": config.metric_name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in self.dimensions.items()],
        }
        self._statistic, self._period = config.statistic, int(config.period.to_seconds())
        self._cloudwatch, self._sqs = system.client("cloudwatch"), system.client("sqs")
        self._name = f"{EMULATOR.prefix}{name}"
        self._heard = self._put_up(system.client("sns"))

    def _put_up(self, sns: Any) -> str:
        topic, ears = sns.create_topic(Name=self._name)["TopicArn"], f"heard-{self._name}"
        allowed = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": f"{ARN}{ears}"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
        queue: str = self._sqs.create_queue(QueueName=ears, Attributes={"Policy": policy})["QueueUrl"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{ARN}{ears}")
        self._cloudwatch.put_metric_alarm(
            **self._metric,
            AlarmName=self._name,
            AlarmActions=[topic],
            Statistic=self._statistic,
            Period=self._period,
            EvaluationPeriods=self._watch.periods,
            Threshold=self._watch.limit,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
            TreatMissingData="notBreaching",
        )
        return queue

    def measure(self, value: float) -> None:
        """As the service does that the metric is of, where the emulator's does not."""
        datum = {**self._metric, "Timestamp": datetime.now(UTC), "Value": value}
        self._cloudwatch.put_metric_data(Namespace=datum.pop("Namespace"), MetricData=[datum])

    def heard(self) -> str:
        """What the topic publishes, once it does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            # The emulator looks at its alarms whenever it gets a metric.
            self._cloudwatch.put_metric_data(Namespace="Time", MetricData=[{"MetricName": "passes", "Value": 1}])
            for message in self._sqs.receive_message(QueueUrl=self._heard).get("Messages", []):
                alarm = json.loads(json.loads(message["Body"])["Message"])
                return f"{alarm['AlarmName']}: {alarm['NewStateValue']}"
            time.sleep(0.2)
        return "nothing"


async def fail(system: System, function: str) -> None:
    """Run it on an empty batch: the emulator counts the errors of what it is asked to run, not of what a queue feeds."""
    run, name = system.client("lambda").invoke, f"{system.deployment.outputs.table_prefix}{function}"
    answer = await asyncio.to_thread(run, FunctionName=name, Qualifier="live", Payload=json.dumps({"Records": []}))
    assert "FunctionError" in answer


@asynccontextmanager
async def without(system: System, function: str, variable: str) -> AsyncIterator[None]:
    """A release that forgot to set a variable of a function. Its alias is led back."""
    functions, name = system.client("lambda"), f"{system.deployment.outputs.table_prefix}{function}"
    live = await asyncio.to_thread(functions.get_alias, FunctionName=name, Name="live")
    configuration = await asyncio.to_thread(functions.get_function_configuration, FunctionName=name)
    broken = {key: value for key, value in configuration["Environment"]["Variables"].items() if key != variable}
    change = functions.update_function_configuration
    await asyncio.to_thread(change, FunctionName=name, Environment={"Variables": broken})
    released = await asyncio.to_thread(functions.publish_version, FunctionName=name)

    async def lead_to(version: str) -> None:
        await asyncio.to_thread(functions.update_alias, FunctionName=name, Name="live", FunctionVersion=version)

    await lead_to(released["Version"])
    try:
        yield
    finally:
        await lead_to(live["FunctionVersion"])


async def test_a_push_that_the_provider_refused_rings_and_is_brought_by_a_redrive(system: System) -> None:
    alice, bob = Device("Alice, to be refused"), Device("Bob, who gets it later")
    token = troubled_token(InjectedFault(failure="BadTopic", times=1), device=0xB0B)
    await system.register(bob, "apns", token, (alice.public_key, CHAT))
    alarm, dead = await asyncio.to_thread(Alarm, system, "dead-letters-apns"), Queue(system, "apns-dead")
    raw = alice.statement(CHAT, data=b"refused at first")

    await system.store.inject(raw)

    alarm.measure(await dead.until_visible())
    assert alarm.dimensions == {"QueueName": dead.name}
    assert await asyncio.to_thread(alarm.heard) == "clarion-local-dead-letters-apns: ALARM"
    assert not [push for push in system.apns.received if push.accepted and push.token == token]

    await redrive(system, "apns")

    push = await system.push_of(raw)
    assert push.token == token


async def test_a_statement_of_a_later_version_waits_among_the_dead_letters_until_it_is_understood(
    system: System,
) -> None:
    alice, bob = Device("Alice, of tomorrow"), Device("Bob, of today")
    await system.register(bob, "apns", "f1" * 32, (alice.public_key, CHAT))
    raw = alice.statement(CHAT, data=b"from the future")
    today = EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=now_ms(), raw=raw)
    later = json.dumps({**json.loads(today.to_json()), "version": 2})

    await Queue(system, "envelopes").put(later)
    letter = await Queue(system, "envelopes-dead").take()

    assert letter["Body"] == later
    assert letter["MessageAttributes"]["reason"]["StringValue"] == "envelope.version: Input should be 1"
    await Queue(system, "envelopes").put(today.to_json())
    assert (await system.push_of(raw)).token == "f1" * 32


async def test_a_broken_release_rings_and_what_it_gave_up_is_pushed_after_the_roll_back(system: System) -> None:
    alice, bob = Device("Alice, meanwhile"), Device("Bob, after the roll-back")
    await system.register(bob, "apns", "f2" * 32, (alice.public_key, CHAT))
    alarm = await asyncio.to_thread(Alarm, system, "function-failing-match")
    raw = alice.statement(CHAT, data=b"sent to a broken release")

    async with without(system, "match", "CLARION_EVENTS_STREAM"), Queue(system, "envelopes").hurried(receives=3):
        await system.store.inject(raw)
        await Queue(system, "envelopes-dead").until_visible()
        for _ in range(EMULATOR.thresholds.function_errors):
            await fail(system, "match")
        assert await asyncio.to_thread(alarm.heard) == "clarion-local-function-failing-match: ALARM"
    await redrive(system, "envelopes")

    assert (await system.push_of(raw)).token == "f2" * 32
