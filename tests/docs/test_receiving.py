"""docs/receiving.md and the schemas of openapi.json, against the payloads that are made."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
from pydantic import SecretStr

from clarion import own_pushes, sealing
from clarion.addresses import WebhookAddress
from clarion.channels import CHANNELS as CHANNEL_SPECS
from clarion.channels import Channel
from clarion.decisions import Purpose, SubscriptionStatus, Wanted
from clarion.messages import PushMessage
from clarion.networks import NETWORKS, SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP, ZULIP, Receiver, network
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.bodies import NewestItems
from clarion.networks.simplex.composing import compose as compose_simplex
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.storage_key import StorageKey
from clarion.networks.statements.payload import CHANNELS, StatementBody
from clarion.networks.walletconnect import payload as walletconnect
from clarion.networks.walletconnect.sealed import SealedNotification
from clarion.networks.xmtp.envelope import TopicMessage
from clarion.networks.xmtp.payload import body_of, refresh_body
from clarion.networks.zulip.payload import ApnsBody, Aps, Body, FcmBody, ProposedContent, ShippedContent, ZulipBody
from clarion.own_pushes import MaskedCode, VerificationBody, WakeUpBody
from clarion.proofs import REPLACED
from clarion.providers import apns, fcm
from clarion.providers.webhook import addressed
from clarion.secrets import SharedSecret
from clarion.settings import TITLE
from tests.docs import test_privacy
from xmtp.hourly import REGISTRATION_OVER

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "receiving.md").read_text()
OPENAPI = json.loads((DOCS / "openapi.json").read_text())
SHOWN = re.compile(r"\n#+ ([^\n]*)\n((?:(?!\n#+ ).)*)", re.DOTALL)
JSON_BLOCK = re.compile(r"```json\n(.*?)```", re.DOTALL)
TOO_LARGE = bytes(4096)
CODE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
TOPIC = "/xmtp/mls/1/g-00ff/proto"
BEGAN_AT = 1_763_812_800_012
"""UNIX milliseconds."""


push_of = partial(
    PushMessage,
    receipt=UUID(int=0),
    observed_at=0,
    envelope_id=b"\x7e" * 32,
    subscription_id=UUID("3b0f5a52-7c1e-4b8e-9d2a-6f4c1e8b7a90"),
    client_id=bytes(32),
    expires_at=0,
)


def received(push: PushMessage, device_key: bytes | None = None) -> Any:
    """What the app gets of it: for FCM its data."""
    own = push.purpose in own_pushes.BODIES
    made = own_pushes.compose(push.channel, push) if own else _of_network(push)
    body: Any = (sealing.seal(made, device_key, push.subscription_id) if device_key else made).body
    if push.channel is Channel.WEBHOOK:
        body = addressed(body, WebhookAddress(client="c1" * 32, installation_id="mine", token="known"))
    return json.loads(body) if isinstance(body, bytes) else body["data"]


def _of_network(push: PushMessage) -> Any:
    receiver = Receiver(TITLE, CHANNEL_SPECS[push.channel].payload_bytes, BEGAN_AT)
    return network(push.network).payload(push.channel, push, receiver)


def statement(channel: Channel, data: bytes | None, wanted: Wanted = Wanted.ALERT, key: bytes | None = None) -> Any:
    body = StatementBody(sender=b"\xab" * 32, topic=b"\x01" * 32, data=data)
    return received(push_of(network=STATEMENTS, channel=channel, body=body, wanted=wanted), key)


def statements(channel: Channel) -> Iterator[Any]:
    for data in (b"\xc0\xff\xee", b"", None, TOO_LARGE):
        for wanted in (Wanted.ALERT, Wanted.CALL):
            yield statement(channel, data, wanted)


def messages(channel: Channel) -> Iterator[Any]:
    for message in (b"\x0a\x02\x30\x01", bytes(60_000)):
        body = body_of(TopicMessage(TOPIC, 1763812800000000000, message), channel)
        for should_push in (None, True):
            for wanted in (Wanted.ALERT, Wanted.BACKGROUND):
                changed = body.model_copy(update={"should_push": should_push})
                yield received(push_of(network=XMTP, channel=channel, body=changed, wanted=wanted))
    asking = {"purpose": Purpose.REFRESH, "body": refresh_body(), "wanted": Wanted.BACKGROUND}
    yield received(push_of(network=XMTP, channel=channel, **asking))


def sealed_notifications(channel: Channel) -> Iterator[Any]:
    """Of WalletConnect."""
    for message in ("AAECAwQFBgcICQoLDA0ODw==", "A" * 8000):
        notification = SealedNotification("5a" * 32, message, UUID(int=1), "one", 0)
        body = walletconnect.body_of(notification, channel)
        yield received(push_of(network=WALLETCONNECT, channel=channel, body=body))


def notifications(channel: Channel) -> Iterator[Any]:
    """Of Zulip."""
    shipped = ShippedContent(push_key_id=2408, encrypted_data="sFTvSwHt")
    proposed = ProposedContent(push_account_id=1234567890123456789, encrypted_content="mgKvBjm4")
    bodies: list[Body]
    if channel is Channel.FCM:
        bodies = [FcmBody(content=shipped), FcmBody(content=proposed)]
    else:
        silent = ApnsBody(content=shipped, aps=Aps(mutable_content=1), push_type="background", priority=5)
        bodies = [ApnsBody(content=shipped), silent, ApnsBody(content=proposed)]
    for body in bodies:
        yield received(push_of(network=ZULIP, channel=channel, body=ZulipBody(body)))


def newest_messages(channel: Channel) -> Iterator[Any]:
    """Of SimpleX."""
    key = SharedSecret(secret=SecretStr("s" * 64))
    item = encode(SmpQueue(SmpServer(("smp.example.com",), "", bytes(32)), b"id"), 0, MessageArrived(bytes(24), b"m"))
    for purpose in (Purpose.NOTIFICATION, Purpose.VERIFICATION, Purpose.WAKE_UP):
        body = NewestItems(messages=(item,)) if purpose is Purpose.NOTIFICATION else None
        push = push_of(network=SIMPLEX, channel=channel, purpose=purpose, body=body)
        sealed = sealed_for_dispatch(StorageKey.of(key), str(push.subscription_id), bytes(32), bytes(32))
        receiver = Receiver("", CHANNEL_SPECS[channel].payload_bytes, network_data=sealed, secret=key)
        yield json.loads(compose_simplex(channel, push, receiver).body)


def verification(channel: Channel, key: bytes | None = None) -> Any:
    masked = push_of(network=STATEMENTS, channel=channel, purpose=Purpose.VERIFICATION, body=MaskedCode(masked=""))
    return received(masked.model_copy(update={"body": VerificationBody(code=CODE)}), key)


def wake_up(channel: Channel) -> Any:
    return received(push_of(network=STATEMENTS, channel=channel, purpose=Purpose.WAKE_UP, body=WakeUpBody()))


def clarions_own(channel: Channel) -> Iterator[Any]:
    yield verification(channel)
    if channel in {Channel.APNS, Channel.FCM}:
        yield wake_up(channel)


def sealed(channel: Channel) -> Iterator[Any]:
    key = sealing.parse_device_key(test_privacy.KEY.public)
    yield from (
        statement(channel, b"data", key=key),
        statement(channel, TOO_LARGE, key=key),
        verification(channel, key),
    )


MADE = {
    "clarion": clarions_own,
    "sealed": sealed,
    STATEMENTS: statements,
    XMTP: messages,
    ZULIP: notifications,
    WALLETCONNECT: sealed_notifications,
    SIMPLEX: newest_messages,
}
SERVED = [
    *((name, channel) for name in NETWORKS for channel in network(name).channels),
    *((name, channel) for name in ("clarion", "sealed") for channel in own_pushes.CHANNELS),
]


def exact(schema: Any) -> Any:
    """The same schema, which takes no member that it doesn't name."""
    if isinstance(schema, list):
        return [exact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: exact(value) for name, value in schema.items()}
    return inner | {"additionalProperties": False} if schema.get("type") == "object" else inner


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    schemas = {name: exact(one) for name, one in OPENAPI["components"]["schemas"].items()}
    return jsonschema_rs.validator_for({**schema, "components": {"schemas": schemas}}, validate_formats=True)


def schema_of(name: str, channel: Channel) -> dict[str, Any]:
    content = OPENAPI["webhooks"][f"{name}.{channel}"]["post"]["requestBody"]["content"]
    found: dict[str, Any] = content["application/json"]["schema"]
    return found


def test_what_an_app_receives_is_described_for_each_network_and_channel() -> None:
    assert list(OPENAPI["webhooks"]) == [f"{name}.{channel}" for name, channel in SERVED]


@pytest.mark.parametrize(("name", "channel"), SERVED)
def test_each_payload_is_what_its_schema_says_and_has_no_other_member(name: str, channel: Channel) -> None:
    validates = validator(schema_of(name, channel))
    made = list(MADE[name](channel))
    assert made
    for payload in made:
        validates.validate(payload)


@pytest.mark.parametrize(("name", "channel"), [one for one in SERVED if one != ("sealed", Channel.WEBPUSH)])
def test_a_payload_without_one_of_its_members_is_not_what_its_schema_says(name: str, channel: Channel) -> None:
    validates = validator(schema_of(name, channel))
    for payload in MADE[name](channel):
        for member in payload.keys() - {"truncated"}:
            assert not validates.is_valid({key: value for key, value in payload.items() if key != member})


@pytest.mark.parametrize(("name", "channel"), SERVED)
def test_each_network_and_channel_has_examples_which_are_payloads_as_they_are_made(name: str, channel: Channel) -> None:
    schema = schema_of(name, channel)
    made = [opened(payload) for payload in MADE[name](channel)]
    assert schema["examples"]
    for example in schema["examples"]:
        validator(schema).validate(example)
        assert opened(example) in made


def opened(payload: dict[str, Any]) -> dict[str, Any]:
    """By the key of the page's test vector. What isn't sealed stays as it is."""
    return test_privacy.KEY.open(payload, test_privacy.NAME)


def test_what_is_text_at_fcm_is_described_as_well() -> None:
    for name in ("clarion", "sealed"):
        schema = OPENAPI["components"]["schemas"][f"{name.title()}FcmPush"]["properties"]["clarion"]["contentSchema"]
        for push in MADE[name](Channel.FCM):
            validator(schema).validate(json.loads(push["clarion"]))


def blocks(heading: str) -> list[Any]:
    """The JSON that the page shows under the heading that begins so."""
    [section] = [text for title, text in SHOWN.findall(PAGE) if title.startswith(heading)]
    return [json.loads(one) for one in JSON_BLOCK.findall(section)]


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_page_shows_a_statement_whole_and_truncated(channel: Channel) -> None:
    assert blocks(f"`{channel}`") == [statement(channel, b"\xc0\xff\xee"), statement(channel, TOO_LARGE)]


def test_the_page_shows_a_notification_of_walletconnect_whole_and_truncated() -> None:
    shown = blocks("Notifications of WalletConnect")
    assert shown == [push for channel in (Channel.APNS, Channel.FCM) for push in sealed_notifications(channel)]


def test_the_page_shows_clarions_own_pushes() -> None:
    assert blocks("Clarion's own") == [verification(Channel.APNS), wake_up(Channel.APNS)]
    content = verification(Channel.APNS)["clarion"]
    assert verification(Channel.VOIP) == {"aps": {}, "clarion": content}
    assert verification(Channel.WEBPUSH) == {"clarion": content}
    assert json.loads(verification(Channel.FCM)["clarion"]) == content


def test_the_page_on_privacy_shows_what_comes_out_of_fcms_sealed_data() -> None:
    shown = [json.loads(one) for one in JSON_BLOCK.findall((DOCS / "privacy.md").read_text())]
    assert shown == [statement(Channel.FCM, b"\xc0\xff\xee"), verification(Channel.FCM)]


def test_the_page_says_what_to_do_at_each_status_and_each_reason_of_a_dead_token() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ?(.*?) ?\| .+ \|$", PAGE.partition("| status |")[2], re.MULTILINE)
    assert {status for status, _ in rows} == set(SubscriptionStatus)
    of_apple = {reason for _, reason in apns.TOKEN_GONE | apns.TOKEN_OR_APP}
    named = {reason for _, reasons in rows for reason in re.findall(r"`([\w]+)`", reasons)}
    assert named == of_apple | {"UNREGISTERED", fcm.FOREIGN, fcm.INVALID, REPLACED, REGISTRATION_OVER, "webpush"}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_repeat_has_the_digest_that_the_page_knows_it_by_and_others_have_another(channel: Channel) -> None:
    assert digest(statement(channel, b"a")) == digest(statement(channel, b"a"))
    pushes = [statement(channel, data) for data in (b"a", b"b", b"", TOO_LARGE)]
    other_sender = json.loads(json.dumps(pushes[0]).replace("ab" * 32, "cd" * 32))
    assert len({digest(push) for push in (*pushes, other_sender)}) == 5


def digest(payload: dict[str, Any]) -> bytes:
    content = payload.get("statement", payload)
    topic = content.get("topic") or content["statement_topic"]
    data = content.get("data", content.get("statement_data"))
    digested = content["sender_pubkey"] + topic + (content["hash"] if data is None else data)
    return sha256(digested.encode()).digest()


def examples(*endings: str) -> Sequence[Path]:
    return [file for file in sorted((DOCS / "examples").iterdir()) if file.suffix in endings]


@pytest.mark.parametrize("file", examples(".swift", ".kt", ".py", ".js"), ids=lambda file: file.name)
def test_each_example_is_referred_to(file: Path) -> None:
    assert f"examples/{file.name}" in "".join(page.read_text() for page in DOCS.glob("*.md"))


READ = re.compile(r'\b(?:payload|statement|own|content|data|clarion)(?:\[|\.get\w*\(|\.optString\()"(\w+)"')
"""A member that an example takes out of a payload."""


def members(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from members(one)
    elif isinstance(schema, dict):
        yield from schema.get("properties", ())
        for value in schema.values():
            yield from members(value)
        if reference := schema.get("$ref"):
            yield from members(OPENAPI["components"]["schemas"][reference.rpartition("/")[2]])


@pytest.mark.parametrize(
    ("suffix", "channels", "own"),
    [
        (".swift", (Channel.APNS, Channel.VOIP), "messageKind"),
        (".kt", (Channel.FCM,), "messageType"),
    ],
)
def test_the_examples_read_what_there_is_of_each_network(suffix: str, channels: Sequence[Channel], own: str) -> None:
    described = {
        member for name, channel in SERVED if channel in channels for member in members(schema_of(name, channel))
    }
    read = set(READ.findall("".join(file.read_text() for file in examples(suffix))))
    assert {own, "encryptedMessage", "sender_pubkey"} <= read <= described
