"""Least privilege: what each role was seen to ask for, against what its policies in production grant.

All that the tests before this one made the deployed stack do was done under each component's own role, with IAM
enforced, and was recorded by the emulator. Here it is held against the policies as they are synthesised for AWS: what
was asked for without a grant fails, even where the code made nothing of the refusal, and so does a grant that nothing
has asked for. The emulator doesn't know that a table's, a bucket's or a secret's key is used, so `key_uses` adds it.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from clarion.channels import CHANNELS, Channel
from clarion.clock import now_ms
from clarion.decisions import Environment, SubscriptionStatus
from clarion.messages import CleanupMessage, DeadTokenMessage, EnvelopeMessage, PageMessage
from clarion.networks import STATEMENTS, WALLETCONNECT, XMTP, ZULIP, network
from clarion.networks.simplex.commands import SimplexCommand, TokenDeleted, TokenDied, message_of
from clarion.networks.simplex.tokens import subscription_id
from clarion.networks.statements import codec
from clarion.networks.statements.rules import key_of
from clarion.tables import WINDOW_PART, RateLimit, pair_scope, rule_key, table_name
from clarion.tokens import token_hash
from clarion_client import rule
from clarion_client.models import Channel as ChannelName
from infra.environments import EMULATOR, PROD
from infra.lake import LARGE as LARGE_PREFIX
from infra.networks import function_name, functions_of
from infra.stack import ClarionStack
from local.device import Device, topic_of
from local.notifications import CallRefused
from local.simplex.agent_state import TokenStep
from local.simplex.client import SimplexClient
from local.simplex.ntf_commands import NtfConversation
from local.simplex_story import simplex_user
from local.system import System, whole_lines
from local.walletconnect.account import EthereumAccount
from local.walletconnect.story import dapp_site
from local.xmtp_device import ChatGroup, Inbox, InstalledApp, Mechanism
from local.zulip_client import Phone, ShippedAccount
from local.zulip_devices import TokenKind
from local.zulip_story import self_hosted
from match.fan_out import EVERYTHING
from tests.grants import COMPONENTS, Call, Permissions, allows, key_uses, permissions
from tests.infra.templates import merged
from tests.system.test_deliveries import deliveries_of

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC, DOUBTFUL = topic_of("what permissions are for"), topic_of("what is in doubt")
POPULAR = topic_of("what a crowd wants")
LARGE = 900_000
"""Bytes that fit a statement, but in base64 no message of SQS."""
WAIT_S = 90
CLEANUP_WAIT_S = 150
"""The function may have to be started, and to handle what the API has asked for first."""
CROWD = 501
"""More subscriptions than match takes in two pages."""
ELSEWHERE = {"test_pages.py", "test_upgrade.py"}
"""They drive a deployment of their own."""
TRESPASSER = "trespasser"
"""The session of a test that tries what a role may not do."""

OF_NETWORKS = [function_name(name, each) for name in EMULATOR.networks for each, _ in functions_of(name)]
"""The networks' own functions."""
TASKS = ("ntf",)
"""Those of a network, beside ingest's."""
BY_LAMBDA = {
    "sqs:ReceiveMessage": "Lambda polls the function's queue as the function",
    "sqs:DeleteMessage": "so does it acknowledge",
    "sqs:GetQueueAttributes": "it reads the queue's visibility timeout before it polls",
    "sqs:GetQueueUrl": "CDK grants it with the three above to whatever a queue feeds",
    "logs:CreateLogStream": "Lambda writes the log as the function",
    "logs:PutLogEvents": "as above",
}
"""Actions that AWS takes in a function's name: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
UNUSED: Mapping[tuple[str, str], str] = {
    **{
        (name, "sqs:ChangeMessageVisibility"): "a statement rests after a fault of AWS, which `make crash` provokes"
        for name in ("match", "pages")
    },
    **{
        (name, "s3:ListBucket"): "without it S3 calls a statement that is gone forbidden; no call is made for it"
        for name in ("match", "pages")
    },
    (
        "cleanup",
        "sqs:ChangeMessageVisibility",
    ): "CDK grants it to whatever a queue feeds; its messages rest as the queue says",
    **{
        (name, action): why
        for name in (*COMPONENTS, *OF_NETWORKS)
        if name != "ingest"
        for action, why in BY_LAMBDA.items()
    },
    **{
        (name, "sqs:ChangeMessageVisibility"): "CDK grants it to whatever a queue feeds"
        for name in ("xmtp-worker", "deliveries", "late-events")
    },
    (
        "walletconnect-worker",
        "sqs:ChangeMessageVisibility",
    ): "a command rests after a fault: the worker's own tests have it",
    (
        "simplex-worker",
        "sqs:ChangeMessageVisibility",
    ): "a command rests after a fault of AWS, or where it comes too early: no system test provokes either",
    ("xmtp-worker", "dynamodb:BatchWriteItem"): "old keys of more than 99 topics, which `make crash` has it erase",
}
"""Grants that no call is seen to need, by component and action, and why they stand."""
UNUSED_OF_RESOURCE: Mapping[Call, str] = {
    Call(
        "api", "secretsmanager:GetSecretValue", f"{PROD.prefix}origin"
    ): "the emulator has no CloudFront to be known by",
    **{
        Call(
            f"{name}-router", "secretsmanager:GetSecretValue", f"{PROD.prefix}origin"
        ): "the emulator has no CloudFront to be known by"
        for name in (XMTP, ZULIP, WALLETCONNECT)
    },
    Call("xmtp-router", "kms:Decrypt", "key by way of secretsmanager"): "that secret is its only one",
    **{
        Call(
            "zulip-router", f"dynamodb:{action}", f"{PROD.prefix}{table}"
        ): "a registration meets another one of the same device: the router's own tests race them"
        for action, table in (
            ("BatchGetItem", "tokens"),
            ("DeleteItem", "tokens"),
            ("DeleteItem", "subscriptions"),
        )
    },
    **{
        Call(name, "dynamodb:GetItem", f"{PROD.prefix}rate_limits"): "the version before, while both run"
        for name in ("match", "pages")
    },
    Call(
        "match", "sqs:SendMessage", f"{PROD.prefix}envelopes"
    ): "a queue refuses some of an envelope's pushes: match's own tests have it, and pages sends to its own queue so",
    **{
        Call("pages", "sqs:SendMessage", f"{PROD.prefix}{channel}"): "it goes the same way as to APNs"
        for channel in CHANNELS
        if channel != Channel.APNS
    },
    **{
        Call(
            "pages", f"dynamodb:{action}", f"{PROD.prefix}simplex_items"
        ): "a queue has one follower, never a crowd; but it is match's code, which records what it has pushed"
        for action in ("GetItem", "UpdateItem")
    },
    Call(
        "ntf", "dynamodb:ConditionCheckItem", f"{PROD.prefix}simplex_tokens"
    ): "a queue is taken over from a token that is gone or dead: the commands' own tests have it",
    Call(
        "ntf", "dynamodb:Query", f"{PROD.prefix}simplex_queues/index/by_token"
    ): "a token has a thousand queues, some of which have ended: the commands' own tests have it",
    Call("api", "dynamodb:PutItem", f"{PROD.prefix}wake_ups"): "a client asks to be woken: the API's own tests do",
    **{
        Call(
            channel, "dynamodb:DeleteItem", f"{PROD.prefix}wake_ups"
        ): "a pending subscription's token dies: the dispatchers' own tests have it"
        for channel in (Channel.VOIP, Channel.WEBPUSH)
    },
    Call("cleanup", "dynamodb:DeleteItem", f"{PROD.prefix}wake_ups"): "a holder that is woken ends as dispatch ends it",
    **{
        Call(
            component, f"dynamodb:{action}", f"{PROD.prefix}wake_ups"
        ): "an installation that is woken comes and goes as any other subscription"
        for component, action in (
            ("xmtp-router", "PutItem"),
            ("xmtp-router", "DeleteItem"),
            ("xmtp-worker", "DeleteItem"),
        )
    },
    **{
        Call("xmtp-router", "sqs:SendMessage", f"{PROD.prefix}{channel}"): "a code for another token goes the same way"
        for channel in network(XMTP).channels
        if channel != Channel.APNS
    },
    **{
        Call(
            "xmtp-worker", "sqs:SendMessage", f"{PROD.prefix}{channel}"
        ): "who is reached otherwise is not asked for keys"
        for channel in network(XMTP).channels
        if channel != Channel.APNS
    },
    **{
        Call(
            component, "sqs:SendMessage", f"{PROD.prefix}late-events"
        ): "Firehose takes what it gets; the refusals of test_late_events.py are for one of each way"
        for component in ("pages", *CHANNELS, "cleanup", "schedule", "api", *OF_NETWORKS, *TASKS)
        if component != Channel.APNS
    },
    **{
        Call(
            channel, "sqs:ChangeMessageVisibility", f"{PROD.prefix}{channel}-held"
        ): "CDK grants it to whatever a queue feeds; what is held is sent again with its delay"
        for channel, row in CHANNELS.items()
        if row.has_held_queue
    },
}
"""The same, of one resource."""

USED = [
    name
    for name in COMPONENTS
    if name not in CHANNELS or any(name in network(deployed).channels for deployed in EMULATOR.networks)
]
"""Without the channels that no deployed network serves."""

BATCHED = re.compile(r"^(sqs:(?:SendMessage|DeleteMessage|ChangeMessageVisibility))Batch$")

COMMANDS = ("status", "why", "send-test", "mute", "unmute", "redrive", "export-rules")
"""Those of `clarion doctor`, most of which it needs before anything is deployed, are held in tests/console/test_doctor.py."""
UNUSED_BY_COMMANDS = {
    "kms:Decrypt": "the emulator has no key behind tables and buckets",
    "kms:GenerateDataKey": "as above",
    "lambda:GetEventSourceMapping": "the emulator asks for ListEventSourceMappings instead",
    "lambda:UpdateEventSourceMapping": "as above",
    "sqs:ListMessageMoveTasks*": "the emulator moves messages at once, so that nothing is waited for",
    "sqs:CancelMessageMoveTask*": "a redrive that is interrupted",
    "dynamodb:Scan": "the rules of all clients; the tests ask for one's",
}
"""Actions that the operations page grants a command, though no test sees it need them, and why."""
CONDITION_KEYS = {"dynamodb:Attributes", "dynamodb:Select"}
"""They stand in the same section, and read like actions."""


@pytest.fixture(scope="module")
def granted(production: ClarionStack) -> Mapping[str, Permissions]:
    return permissions(merged(production))


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> None:
    """Skips what no part of the folder shows."""
    collected = {item.path.name for item in request.session.items}
    missing = sorted({file.name for file in request.path.parent.glob("test_*.py")} - collected - ELSEWHERE)
    if missing:
        pytest.skip(f"only the whole folder makes use of each grant: without {', '.join(missing)}")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calls(system: System) -> set[Call]:
    """What was asked for since the deployment, with what no other test makes the stack do."""
    await system.restart_ingest()
    await use_the_api(system)
    await use_xmtp(system)
    await use_zulip(system)
    await use_walletconnect(system)
    await use_simplex(system)
    await use_match(system)
    await use_dead_letters(system)
    crowd = await use_the_fan_out(system)
    await use_pages(system)
    await use_cleanup(system, crowd)
    await use_deliveries(system)
    seen = asked(system)
    return {*seen, *key_uses(seen)}


def asked(system: System) -> set[Call]:
    """What Clarion's components have asked for so far."""
    return {
        call
        for each in recorded(system)
        if each["session"] != TRESPASSER
        if (call := as_call(system, each["role"], each["action"], each["resource"]))
    }


async def until_asked(system: System, call: Call, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while call not in await asyncio.to_thread(asked, system):
            await asyncio.sleep(1)


def recorded(system: System) -> list[dict[str, Any]]:
    """As `local.recorded_emulator` writes it."""
    return [json.loads(line) for line in whole_lines(system.deployment.emulator.permissions_log)]


async def use_the_api(system: System) -> None:
    alice, bob = Device("Alice, permitted"), Device("Bob, who uses all of the API")
    async with system.api_of(bob) as api:
        subscription = (await api.register_subscription("apns", "9e" * 32))["subscription_id"]
        await api.replace_rules(subscription, [rule(alice.public_key, topic_of(f"{each}")) for each in range(200)])
        await api.replace_rules(subscription, [rule(alice.public_key, TOPIC)])
        await api.add_rules(subscription, [rule(alice.public_key, topic_of("another"))])
        await api.remove_rules(subscription, [rule(alice.public_key, topic_of("another"))])
        await api.list_subscriptions()
        await api.remove_subscriptions(subscription)
        for channel, token in await tokens_of_others(system):
            await api.register_subscription(channel, token)
        for device in ("9d" * 32, "bob-" + "B" * 140):
            # Whether the provider takes it is of no matter here: its key has been asked for.
            await api.push_directly(device, "0123456789abcdef" * 2, b"directly")


async def tokens_of_others(system: System) -> list[tuple[ChannelName, str]]:
    """Channels and tokens that another client has."""
    browser = json.dumps(system.webpush.subscribe(system.application_server_key).as_json())
    tokens: list[tuple[ChannelName, str]] = [
        ("apns", "9b" * 32),
        ("voip", "9a" * 32),
        ("fcm", "carol-" + "C" * 140),
        ("webpush", browser),
    ]
    async with system.api_of(Device("Carol, whose tokens they are")) as api:
        for channel, token in tokens:
            await api.register_subscription(channel, token)
    return tokens


async def use_xmtp(system: System) -> None:
    """With more topics than one transaction takes; and its worker with what is no command."""
    app = InstalledApp(Inbox("who uses all of XMTP"), "phone")
    topics = [app.subscription_to(ChatGroup(f"group {number}")) for number in range(200)]
    async with system.notifications_of(app.device) as client:
        await app.register(client, Mechanism.APNS, "9c" * 32)
        await app.subscribe(client, topics)
        async with system.notifications_of(Device("who has lost its key")) as another:
            with pytest.raises(CallRefused, match="already_exists"):
                await app.register(another, Mechanism.APNS, "9c" * 32)
        await app.unsubscribe(client, [topic.topic for topic in topics])
        await app.delete(client)
    send = system.client("sqs").send_message
    await asyncio.to_thread(send, QueueUrl=system.queue_urls["xmtp-commands"], MessageBody="{}")
    await until_asked(system, Call("xmtp-worker", "sqs:SendMessage", f"{PROD.prefix}xmtp-commands-dead"), WAIT_S)


async def use_zulip(system: System) -> None:
    """With a server that is new, a phone of either kind, and a look for those whose tokens are dead."""
    async with self_hosted(system, "permitted.zulip.example.org") as site:
        realm = site.server.add_realm("Permitted")
        await site.server.join()
        for kind, token in ((TokenKind.APNS, "97" * 32), (TokenKind.FCM, "zulip-" + "P" * 140)):
            await site.register(ShippedAccount, realm, Phone(kind, token, site.release))
        await site.server.notify(realm, {"type": "test"})
        await site.server.remove_expired()


async def use_walletconnect(system: System) -> None:
    """With what dapps alone ask for; and its worker with what is no command."""
    site_of = dapp_site(system, "permitted.dapp.example", "News")
    async with site_of as site, system.walletconnect.wallet(EthereumAccount("permitted")) as wallet:
        [news] = site.dapp.types
        await wallet.register(site.dapp.domain)
        await wallet.subscribe(site.dapp, [news.id])
        content = {"type": news.id, "title": "Hello", "body": "again", "url": "https://permitted.dapp.example/"}
        for _ in range(2):
            await site.backend.notify([wallet.account], content, "one")
        link = urlsplit((await wallet.message()).content["url"]).path
        http, project = site.backend.http, site.backend.project_id
        headers = {"Authorization": f"Bearer {site.backend.secret}"}
        for path in (link, f"/{project}/subscribers", f"/v1/{project}/mark-all-as-read"):
            assert (await http.get(path, headers=headers)).status_code < HTTPStatus.BAD_REQUEST
    send = system.client("sqs").send_message
    await asyncio.to_thread(send, QueueUrl=system.queue_urls["walletconnect-commands"], MessageBody="{}")
    dead = f"{PROD.prefix}walletconnect-commands-dead"
    await until_asked(system, Call("walletconnect-worker", "sqs:SendMessage", dead), WAIT_S)


async def use_simplex(system: System) -> None:
    """With a token that dies, is verified again, woken and deleted; and its worker with what is no command."""
    url, send = system.queue_urls["simplex-commands"], system.client("sqs").send_message

    async def command(content: SimplexCommand) -> None:
        await asyncio.to_thread(send, QueueUrl=url, MessageBody=message_of(content).to_json())

    async with simplex_user(system, "5e" * 32) as user, asyncio.timeout(CLEANUP_WAIT_S):
        await user.phone.register()
        [queue] = await user.followed_queues(1)
        token_id = user.agent.token.id.hex()
        dead = await asyncio.to_thread(dead_token, system, subscription_id(token_id))
        await asyncio.to_thread(send, QueueUrl=system.queue_urls["cleanup"], MessageBody=dead.to_json(), DelaySeconds=0)
        await command(TokenDied(token_id=token_id, reason=dead.reason, registered_at=now_ms()))
        while await user.agent.status() != "INVALID,UNREGISTERED" or await asyncio.to_thread(
            is_active, system, token_id
        ):
            await asyncio.sleep(1)
        user.agent.token.step = TokenStep.WAIT
        await user.phone.register()
        await until_asked(system, Call("simplex-worker", "dynamodb:PutItem", f"{PROD.prefix}rules"), WAIT_S)
        await user.send(queue)
        await user.read(await user.notified_of(queue))
        async with await SimplexClient.of_ntf(user.address) as client:
            conversation = NtfConversation(client, user.agent.token)
            await conversation.set_interval(20)
            await conversation.unsubscribe(queue)
        await user.agent.delete_token()
        await command(TokenDeleted(token_id=token_id))
    await asyncio.to_thread(send, QueueUrl=url, MessageBody="{}")
    for action, name in (("dynamodb:BatchWriteItem", "rules"), ("sqs:SendMessage", "simplex-commands-dead")):
        await until_asked(system, Call("simplex-worker", action, f"{PROD.prefix}{name}"), WAIT_S)


def is_active(system: System, token_id: str) -> bool:
    """Whether the subscription of SimpleX's token is."""
    key, table = {"subscription_id": {"S": subscription_id(token_id)}}, f"{EMULATOR.prefix}subscriptions"
    row = system.client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    return bool(row["status"]["S"] == SubscriptionStatus.ACTIVE)


async def use_match(system: System) -> None:
    """With a statement that goes by way of S3, one whose rule is in doubt, one of a busy pair, and one of nobody's."""
    alice, bob, busy = Device("Alice, of many words"), Device("Bob, who reads them"), Device("Alice, ever busy")
    rules = [(each.public_key, TOPIC) for each in (alice, busy)]
    subscription = await system.register(bob, "apns", "9f" * 32, *rules)
    pair = pair_scope(network(STATEMENTS).number, busy.public_key, bob.public_key)
    await asyncio.to_thread(set_aside_pages, system, pair)
    large = alice.statement(TOPIC, data=bytes(LARGE))
    await system.store.inject(large)
    await system.push_of(large, WAIT_S)
    await asyncio.to_thread(claim_rules, system, [subscription], alice.public_key, DOUBTFUL)
    raws = [
        alice.statement(DOUBTFUL, data=b"by a rule that is not in force yet"),
        busy.statement(TOPIC, data=b"one of very many"),
        Device("nobody's friend").statement(TOPIC, data=b"for nobody"),
    ]
    for raw in raws:
        message = EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=now_ms(), raw=raw)
        await system.hand_to_match(message)
    hashes = {codec.digest(raw).hex() for raw in raws}
    async for events in system.lake.growing(WAIT_S):
        if hashes <= {event.get("envelope_id") for event in events}:
            return


def set_aside_pages(system: System, pair: bytes) -> None:
    """As if the pair's window had had no space for what was admitted until just now."""
    window = RateLimit(pair, WINDOW_PART, admitted=b"", paged_until=now_ms() + 3_600_000, version=1, ttl=2**31)
    name = table_name(system.deployment.outputs.table_prefix, RateLimit)
    system.client("dynamodb").put_item(TableName=name, Item=window.serialize())


async def use_dead_letters(system: System) -> None:
    """With a message that FCM's function can't read."""
    send = system.client("sqs").send_message
    await asyncio.to_thread(send, QueueUrl=system.queue_urls["fcm"], MessageBody="{}")
    await until_asked(system, Call("fcm", "sqs:SendMessage", f"{PROD.prefix}fcm-dead"), WAIT_S)


async def use_the_fan_out(system: System) -> list[str]:
    """With a statement that more want than a page holds; returns who has a rule for it."""
    alice, crowd = Device("Alice, whom all want to hear"), [str(uuid4()) for _ in range(CROWD)]
    await asyncio.to_thread(claim_rules, system, crowd, alice.public_key, POPULAR)
    raw = alice.statement(POPULAR, data=b"to a crowd")
    await system.hand_to_match(EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=now_ms(), raw=raw))
    await until_asked(system, Call("pages", "sqs:SendMessage", f"{PROD.prefix}pages"), WAIT_S)
    return crowd


async def use_pages(system: System) -> None:
    """With what `use_match` has, as pages of a fan-out; one lies in S3, and one message can't be read."""
    alice, busy = Device("Alice, of many words"), Device("Alice, ever busy")
    location = f"{LARGE_PREFIX}{uuid4()}"
    body = alice.statement(TOPIC, data=b"to a crowd, by way of S3")
    bucket = system.deployment.outputs.oversize_bucket
    await asyncio.to_thread(system.client("s3").put_object, Bucket=bucket, Key=location, Body=body)
    envelopes: list[dict[str, object]] = [
        {"location": location},
        {"raw": alice.statement(DOUBTFUL, data=b"to a crowd, by a rule that is not in force yet")},
        {"raw": busy.statement(TOPIC, data=b"to a crowd, one of very many")},
    ]
    url, send = system.queue_urls["pages"], system.client("sqs").send_message
    for envelope in envelopes:
        observed = {"network": STATEMENTS, "receipt": uuid4(), "observed_at": now_ms(), **envelope}
        message = PageMessage.model_validate({**observed, "span": EVERYTHING, "page": 1, "token": uuid4()})
        await asyncio.to_thread(send, QueueUrl=url, MessageBody=message.to_json())
    await asyncio.to_thread(send, QueueUrl=url, MessageBody="{}")
    for action, name in (
        ("dynamodb:BatchGetItem", "rules"),
        ("dynamodb:Query", "rate_limits"),
        ("sqs:SendMessage", "apns"),
        ("sqs:SendMessage", "pages-dead"),
        ("firehose:PutRecordBatch", "events"),
    ):
        await until_asked(system, Call("pages", action, f"{PROD.prefix}{name}"), WAIT_S)


async def use_cleanup(system: System, subscriptions: Sequence[str]) -> None:
    """With a dead token, and rules of subscriptions that do not exist: nobody is writing them, which it need not wait for."""
    message = CleanupMessage(subscription_ids=tuple(map(UUID, subscriptions)))
    url = system.queue_urls["cleanup"]
    send = system.client("sqs").send_message
    await asyncio.to_thread(send, QueueUrl=url, MessageBody=message.to_json(), DelaySeconds=0)
    await until_asked(system, Call("cleanup", "dynamodb:BatchWriteItem", f"{PROD.prefix}rules"), CLEANUP_WAIT_S)
    alice, bob = Device("Alice, who pushes no more"), Device("Bob, whose token is dead")
    subscription = await system.register(bob, "apns", "7d" * 32, (alice.public_key, TOPIC))
    dead = await asyncio.to_thread(dead_token, system, subscription)
    await asyncio.to_thread(send, QueueUrl=url, MessageBody=dead.to_json(), DelaySeconds=0)
    await until_asked(system, Call("cleanup", "firehose:PutRecordBatch", f"{PROD.prefix}events"), CLEANUP_WAIT_S)


def dead_token(system: System, subscription: str) -> DeadTokenMessage:
    """As dispatch finds it, if the token has very many holders."""
    key = {"subscription_id": {"S": subscription}}
    table = f"{EMULATOR.prefix}subscriptions"
    row = system.client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    return DeadTokenMessage(
        token_hash=token_hash(Channel.APNS, row["token"]["S"]),
        app=row["app"]["S"] if "app" in row else None,
        environment=row["environment"]["S"] if "environment" in row else Environment.PRODUCTION.value,
        reason="Unregistered",
        at=now_ms(),
        since=now_ms(),
    )


async def use_deliveries(system: System) -> None:
    """With a push, and a look at what became of it."""
    alice, bob = Device("Alice, whose push is looked up"), Device("Bob, who looks it up")
    subscription = await system.register(bob, "apns", "99" * 32, (alice.public_key, TOPIC))
    assert await deliveries_of(system, bob, subscription, alice.statement(TOPIC, data=b"delivered?"))


def claim_rules(system: System, subscriptions: Iterable[str], sender: bytes, topic: bytes) -> None:
    """A row for each, of the generation that a client is about to put in force."""
    dynamodb = system.client("dynamodb")
    for subscription in subscriptions:
        row = {
            "subscription_id": {"S": subscription},
            "rule_key": {"B": rule_key(1 << 20, key_of(sender, topic))},
            "key": {"B": key_of(sender, topic)},
        }
        dynamodb.put_item(TableName=f"{EMULATOR.prefix}rules", Item=row)


def as_call(system: System, role: str, action: str, resource: str) -> Call | None:
    """None if the role is none of Clarion's code's."""
    # A name that would be too long has no hyphen before its last part.
    found = re.match(rf"{EMULATOR.prefix}stack-(\w+)Role[0-9A-F]{{8}}", role)
    if found is None:
        return None
    if single := BATCHED.match(action):
        action = single[1]
    outputs = system.deployment.outputs
    name = resource.rpartition(":")[2]
    name = name.replace(outputs.lake_bucket, "DataLake").replace(outputs.oversize_bucket, "DataOversize")
    name = re.sub(r"^(table|deliverystream)/", "", name)
    name = re.sub(r"-[A-Za-z0-9]{6}$", "", name) if ":secret:" in resource else name
    component = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", found[1]).lower()
    return Call(component, action, name.replace(EMULATOR.prefix, PROD.prefix))


@pytest.mark.parametrize("component", [*USED, *OF_NETWORKS, *TASKS])
async def test_a_component_asks_for_nothing_that_it_is_not_granted(
    calls: set[Call], granted: Mapping[str, Permissions], component: str
) -> None:
    asked = [call for call in calls if call.component == component]
    refused = [call for call in asked if not allows(granted[component], call)]

    assert asked
    assert not refused


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("component", [*USED, *OF_NETWORKS, *TASKS])
async def test_a_component_is_granted_nothing_that_it_does_not_ask_for(
    calls: set[Call], granted: Mapping[str, Permissions], component: str
) -> None:
    used = [call for call in calls if call.component == component]
    unused = {
        (action, resource)
        for action, resources in granted[component].items()
        for resource in resources
        if not any(allows({action: {resource}}, call) for call in used)
    }

    unexplained = {
        (action, resource)
        for action, resource in unused
        if (component, action) not in UNUSED and Call(component, action, resource) not in UNUSED_OF_RESOURCE
    }
    assert unexplained == set()


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("command", COMMANDS)
async def test_an_operator_is_granted_nothing_that_a_command_does_not_ask_for(system: System, command: str) -> None:
    """By the role that the command's tests made of what the operations page grants it."""
    role = f"operator-{command}"
    answer = await asyncio.to_thread(system.client("iam").get_role_policy, RoleName=role, PolicyName="all")
    (statement,) = answer["PolicyDocument"]["Statement"]
    used = {each["action"] for each in recorded(system) if each["role"] == role}

    unused = {action for action in statement["Action"] if not any(fnmatchcase(each, action) for each in used)}
    assert unused - UNUSED_BY_COMMANDS.keys() - CONDITION_KEYS == set()
