"""Each answer that a provider may give, once, to a push that came all the way, and what becomes of it.

One statement is wanted by as many phones as there are answers; the stand-ins give each the one that its token asks for.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from clarion.addresses import canonical
from clarion.channels import Channel
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import digest
from clarion.providers import apns, fcm
from clarion.tables import Subscription, Token, table_name
from clarion.tokens import token_hash
from clarion_client import rule
from clarion_client.models import Environment
from local.apns_trouble import troubled_token
from local.device import Device, topic_of
from local.http2 import Misbehaviour
from local.provider import InjectedFault
from local.system import QUEUES, System
from local.webpush import NO_TROUBLE

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC = topic_of("what becomes of a push")
AWAKE = topic_of("to be awake")
WAIT_S = 240
"""Long enough for two attempts of what is held in between."""
WARM = 4
"""Statements that find every worker started, or a call would wait for it longer than a phone rings."""
ACCEPTED_EVERY_S = 3


@dataclass(frozen=True)
class Fate:
    """How the attempts end, one after the other, and what is left behind."""

    decisions: tuple[str, ...]
    status: str = "active"
    owns_token: bool = True
    dead_letter: bool = False
    waits: bool = False


DELIVERED = Fate(("delivered",))
DELIVERED_LATER = Fate(("retry", "delivered"))
TOKEN_DEAD = Fate(("token_gone",), status="invalid", owns_token=False)
DEAD_LETTER = Fate(("refused",), dead_letter=True)
HELD = Fate(("misconfigured",), waits=True)
STALE = Fate(("stale",))


@dataclass(frozen=True)
class Case:
    """A phone. What its provider answers, and with what Retry-After; None is that it takes the push."""

    channel: Channel
    answer: str | Misbehaviour | None
    fate: Fate
    retry_after: int | None = None
    environment: Environment = "production"

    def __str__(self) -> str:
        return f"{self.channel} {self.answer}"

    @property
    def name(self) -> str:
        return f"Bob, {self}"

    def token(self, number: int, system: System) -> str:
        """Of the `number`-th phone. What is to succeed later meets its trouble once."""
        times = 1 if self.fate is DELIVERED_LATER else None
        if self.channel is Channel.FCM:
            words = (self.answer, self.retry_after and f"AFTER{self.retry_after}", times and f"TIMES{times}")
            return "-".join([word for word in words if isinstance(word, str)] + [f"phone{number:04}" + "F" * 120])
        if self.channel is Channel.WEBPUSH:
            return self._browser(number, system, times)
        trouble = InjectedFault(failure=self.answer, retry_after=self.retry_after, times=times)
        return troubled_token(trouble, device=0xFA7E0000 + number)

    def _browser(self, number: int, system: System, times: int | None) -> str:
        trouble = InjectedFault(failure=self.answer, retry_after=self.retry_after, times=times)
        browser = system.webpush.subscribe(
            system.application_server_key, NO_TROUBLE if self.answer is NOWHERE else trouble
        )
        subscription = browser.as_json()
        if self.answer is NOWHERE:
            subscription["endpoint"] = f"https://nowhere{number}.notify.windows.com/w/"
        return canonical(Channel.WEBPUSH, json.dumps(subscription))


def of_apns() -> Iterator[Case]:
    yield Case(Channel.APNS, None, DELIVERED)
    for _, reason in sorted(apns.TOKEN_GONE | apns.TOKEN_OR_APP):
        yield Case(Channel.APNS, reason, TOKEN_DEAD)
    for _, reason in sorted(apns.RETRY | apns.TOO_NEW):
        yield Case(Channel.APNS, reason, DELIVERED_LATER, retry_after=1)
    yield Case(Channel.APNS, Misbehaviour.RESET_STREAM, DELIVERED_LATER)
    for _, reason in sorted(apns.REFUSED):
        yield Case(Channel.APNS, reason, DEAD_LETTER)
    # They hold all pushes of the app, which the sandbox is one of by itself: no other test is held with them.
    for _, reason in sorted((apns.REJECTED | apns.MISCONFIGURED) - UNKNOWN_TO_THE_STAND_IN):
        yield Case(Channel.APNS, reason, HELD, environment="sandbox")


UNKNOWN_TO_THE_STAND_IN = {(403, "BadEnvironmentKeyInToken")}
"""Another spelling of `BadEnvironmentKeyIdInToken`, which Apple's documentation has beside it."""

TOO_NEW = {reason for _, reason in apns.TOO_NEW}
TOKEN_OR_APP = {fcm.INVALID, fcm.FOREIGN, *(reason for _, reason in apns.TOKEN_OR_APP)}

OF_VOIP = (
    Case(Channel.VOIP, None, DELIVERED),
    Case(Channel.VOIP, "Unregistered", TOKEN_DEAD),
    Case(Channel.VOIP, "ServiceUnavailable", DELIVERED_LATER, retry_after=1),
    Case(Channel.VOIP, "TooManyRequests", STALE, retry_after=60),
    Case(Channel.VOIP, "PayloadTooLarge", DEAD_LETTER),
)
OF_FCM = (
    Case(Channel.FCM, None, DELIVERED),
    Case(Channel.FCM, "UNREGISTERED", TOKEN_DEAD),
    Case(Channel.FCM, fcm.INVALID, TOKEN_DEAD),
    Case(Channel.FCM, fcm.FOREIGN, TOKEN_DEAD),
    Case(Channel.FCM, fcm.OF_AN_IPHONE, HELD),
    Case(Channel.FCM, "QUOTA_EXCEEDED", DELIVERED_LATER, retry_after=1),
    Case(Channel.FCM, "UNAVAILABLE", DELIVERED_LATER, retry_after=1),
    Case(Channel.FCM, "INTERNAL", DELIVERED_LATER, retry_after=1),
)
NOWHERE = "a host that is not there"
OF_WEBPUSH = (
    Case(Channel.WEBPUSH, None, DELIVERED),
    Case(Channel.WEBPUSH, "ExpiredSubscription", TOKEN_DEAD),
    Case(Channel.WEBPUSH, "UnknownSubscription", TOKEN_DEAD),
    Case(Channel.WEBPUSH, "KeyMismatch", TOKEN_DEAD),
    Case(Channel.WEBPUSH, "TooManyRequests", DELIVERED_LATER, retry_after=1),
    Case(Channel.WEBPUSH, "ServiceUnavailable", DELIVERED_LATER, retry_after=1),
    Case(Channel.WEBPUSH, "BodyTooLarge", DEAD_LETTER),
    Case(Channel.WEBPUSH, NOWHERE, HELD),
)
CASES = (*of_apns(), *OF_VOIP, *OF_FCM, *OF_WEBPUSH)


@dataclass(frozen=True)
class Seen:
    """What became of a case's push."""

    decisions: list[str]
    row: Mapping[str, Any]
    owns_token: bool
    dead_letters: int


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seen(system: System) -> AsyncIterator[Mapping[Case, Seen]]:
    alice = Device("Alice, of whom many want to know")
    tokens = {case: case.token(number, system) for number, case in enumerate(CASES)}
    ids = {case: await registered(system, case, token, alice) for case, token in tokens.items()}
    await warm_up(system, [case for case in CASES if case.answer is None], alice)
    raw = alice.statement(TOPIC, data=b"to all")
    await system.store.inject(raw)
    others = asyncio.create_task(push_others(system, alice))
    attempts = await decided(system, digest(raw).hex(), {ids[case]: case for case in CASES})
    others.cancel()
    for channel, messages in (await asyncio.to_thread(in_queues, system)).items():
        assert messages >= sum(case.fate.waits for case in CASES if case.channel is channel)
    letters = await asyncio.to_thread(dead_letters, system, set(ids.values()))
    found = {}
    for case, subscription in ids.items():
        row = await asyncio.to_thread(item, system, Subscription, {"subscription_id": {"S": subscription}})
        key = {"token_hash": {"B": token_hash(case.channel, tokens[case])}, "holder": {"S": STATEMENTS}}
        owner = await asyncio.to_thread(item, system, Token, key)
        decisions = [each["decision"] for each in attempts[subscription]]
        found[case] = Seen(
            decisions, row, owner.get("subscription_id") == {"S": subscription}, letters.count(subscription)
        )
    yield found
    await asyncio.to_thread(empty_queues, system)


async def warm_up(system: System, cases: Sequence[Case], sender: Device) -> None:
    """Even if they come too late for the phones of `cases` themselves."""
    raws = [sender.statement(AWAKE, data=f"{number}".encode()) for number in range(WARM)]
    for case in cases:
        async with system.api_of(Device(case.name)) as api:
            (subscription,) = await api.list_subscriptions()
            await api.add_rules(subscription["subscription_id"], [rule(sender.public_key, AWAKE)])
    for raw in raws:
        await system.store.inject(raw)
    hashes = {digest(raw).hex() for raw in raws}
    async for events in system.lake.growing(WAIT_S):
        tried = [each for each in events if each["event"] == "push" and each["envelope_id"] in hashes]
        if len(tried) >= len(raws) * len(cases):
            return


async def push_others(system: System, sender: Device) -> None:
    """What providers accept of the same apps meanwhile, as they would of any deployment."""
    for number in count():
        await system.store.inject(sender.statement(AWAKE, data=f"meanwhile {number}".encode()))
        await asyncio.sleep(ACCEPTED_EVERY_S)


async def registered(system: System, case: Case, token: str, sender: Device) -> str:
    wanted = (sender.public_key, TOPIC)
    return await system.register(Device(case.name), case.channel, token, wanted, environment=case.environment)


async def decided(system: System, of: str, cases: Mapping[str, Case]) -> Mapping[str, list[dict[str, Any]]]:
    """The attempts of each subscription's push that met the case's answer, in order, once there are enough of them."""
    attempts: dict[str, list[dict[str, Any]]] = {}
    async for events in system.lake.growing(WAIT_S):
        attempts = defaultdict(list)
        for event in events:
            case = cases.get(event.get("subscription_id", ""))
            if event["event"] == "push" and event["envelope_id"] == of and case and met_its_answer(event, case):
                attempts[event["subscription_id"]].append(event)
        if all(len(attempts[each]) >= len(case.fate.decisions) for each, case in cases.items()):
            break
    return {each: sorted(attempts[each], key=lambda event: int(event["attempt"])) for each in cases}


def met_its_answer(attempt: Mapping[str, Any], case: Case) -> bool:
    """Whether this is no attempt that a busy machine adds.

    An answer may be late. Where the stand-in rejects a good key, the token that is made of it anew may be too new. And
    a sandbox that has had no push accepted yet can't know whether the token or the configuration is at fault.
    """
    if attempt["decision"] == "misconfigured" and attempt["reason"] in TOKEN_OR_APP:
        return False
    if attempt["decision"] != "retry" or isinstance(case.answer, Misbehaviour):
        return True
    return "status" in attempt and (attempt["reason"] == case.answer or attempt["reason"] not in TOO_NEW)


def push_queues(channel: Channel) -> list[str]:
    """A channel's queue and the one where what is held waits; a call waits nowhere."""
    return [name for name in QUEUES if name in {channel, f"{channel}-held"}]


def in_queues(system: System) -> dict[Channel, int]:
    """How many messages each channel has, in whatever state."""
    counts = system.messages()
    return {channel: sum(counts.get(name, 0) for name in push_queues(channel)) for channel in Channel}


def empty_queues(system: System) -> None:
    """What waits for somebody to fix the configuration would be tried again beside the tests that follow."""
    for channel in Channel:
        for name in push_queues(channel):
            system.client("sqs").purge_queue(QueueUrl=system.queue_urls[name])


def dead_letters(system: System, subscriptions: set[str]) -> list[str]:
    """Take those of `subscriptions` out of all dead-letter queues; the others' stay."""
    sqs = system.client("sqs")
    found = []
    for channel in Channel:
        url = system.queue_urls[f"{channel}-dead"]
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=3).get(
            "Messages"
        ):
            for message in messages:
                subscription = json.loads(message["Body"])["subscription_id"]
                if subscription in subscriptions:
                    found.append(subscription)
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def item(system: System, model: type[Subscription] | type[Token], key: Mapping[str, Any]) -> Mapping[str, Any]:
    name = table_name(system.deployment.outputs.table_prefix, model)
    answer = system.client("dynamodb").get_item(TableName=name, Key=key, ConsistentRead=True)
    return answer.get("Item", {})  # type: ignore[no-any-return] # boto3's clients are untyped here


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_push_meets_the_fate_that_its_answer_stands_for(seen: Mapping[Case, Seen], case: Case) -> None:
    outcome = seen[case]

    # What waits is tried again for as long as the test takes.
    decisions = outcome.decisions[:1] if case.fate.waits else outcome.decisions
    assert tuple(decisions) == case.fate.decisions
    assert outcome.row["status"] == {"S": case.fate.status}
    assert outcome.owns_token == case.fate.owns_token
    assert outcome.dead_letters == case.fate.dead_letter


@pytest.mark.parametrize("case", [case for case in CASES if case.fate is TOKEN_DEAD], ids=str)
async def test_a_dead_tokens_subscription_says_why_and_the_token_can_be_registered_again(
    system: System, seen: Mapping[Case, Seen], case: Case
) -> None:
    assert seen[case].row["status_reason"] == {"S": case.answer}

    carol = Device(f"Carol, with the old phone of {case.name}")
    again = await system.register(carol, case.channel, seen[case].row["token"]["S"])
    async with system.api_of(carol) as api:
        await api.remove_subscriptions(again)


async def test_no_answer_of_the_tables_is_left_out() -> None:
    answers = {case.answer for case in CASES}
    tables = (
        apns.TOKEN_GONE,
        apns.TOKEN_OR_APP,
        apns.RETRY,
        apns.TOO_NEW,
        apns.REFUSED,
        apns.REJECTED,
        apns.MISCONFIGURED,
    )
    documented = {reason for table in tables for reason in table - UNKNOWN_TO_THE_STAND_IN}
    assert {reason for _, reason in documented} | fcm.RETRY | {fcm.INVALID, fcm.FOREIGN, fcm.OF_AN_IPHONE} <= answers
