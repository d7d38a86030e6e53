import pytest

from clarion.networks.xmtp import Reason, decide
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.networks.xmtp.wire_pb2 import NodeEnvelope
from local.notifications import JsonObject
from local.xmtp_device import ChatGroup, Inbox, InstalledApp, Mechanism, TopicRequest

PERIOD = 700
ALIX, BO = Inbox("Alix"), Inbox("Bo")
CHAT = ChatGroup("chat of Alix and Bo")


class Recorder:
    """Answers each call, and keeps it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, JsonObject]] = []

    async def call(self, method: str, request: JsonObject) -> JsonObject:
        self.calls.append((method, request))
        return {"installationId": request["installationId"], "validUntil": "1800000000000"}


def shown(message: bytes, period: int = PERIOD) -> bytes:
    """As a node shows it in that period."""
    timestamp_ns = period * PERIOD_S * 1_000_000_000
    envelope: bytes = NodeEnvelope(
        content_topic=CHAT.topic, timestamp_ns=timestamp_ns, message=message
    ).SerializeToString()
    return envelope


def test_a_name_is_always_the_same_inbox_and_installation() -> None:
    assert Inbox("Alix").hmac_keys(CHAT, PERIOD) == ALIX.hmac_keys(CHAT, PERIOD) != BO.hmac_keys(CHAT, PERIOD)
    assert InstalledApp(ALIX, "phone").id == InstalledApp(Inbox("Alix"), "phone").id != InstalledApp(ALIX, "tablet").id


def test_keys_are_those_of_a_period_and_its_neighbours() -> None:
    assert list(ALIX.hmac_keys(CHAT, PERIOD)) == [PERIOD - 1, PERIOD, PERIOD + 1]


@pytest.mark.parametrize("sent_in", [PERIOD - 1, PERIOD, PERIOD + 1])
def test_a_message_is_recognised_by_its_inbox_alone(sent_in: int) -> None:
    envelope = shown(ALIX.message(CHAT, b"hello", period=sent_in))

    assert decide(envelope, ALIX.hmac_keys(CHAT, PERIOD)).reason is Reason.OWN_MESSAGE
    assert decide(envelope, BO.hmac_keys(CHAT, PERIOD)).reason is Reason.SHOULD_PUSH


def test_a_reaction_is_not_to_be_pushed() -> None:
    envelope = shown(ALIX.message(CHAT, b"a heart", should_push=False, period=PERIOD))

    assert decide(envelope, BO.hmac_keys(CHAT, PERIOD)).reason is Reason.NOT_PUSHABLE


def test_no_two_messages_are_the_same() -> None:
    assert ALIX.message(CHAT, b"hello", period=PERIOD) != ALIX.message(CHAT, b"hello", period=PERIOD)


async def test_an_installation_registers_and_subscribes_as_the_service_has_it() -> None:
    phone, service = InstalledApp(ALIX, "phone"), Recorder()

    valid_until = await phone.register(service, Mechanism.APNS, "ab" * 32)
    await phone.subscribe(service, [TopicRequest(CHAT.topic, {PERIOD: b"\1" * 42}, is_silent=True), phone.welcomes])
    await phone.unsubscribe(service, [CHAT.topic])
    await phone.delete(service)

    assert valid_until == 1_800_000_000_000
    key = {"thirtyDayPeriodsSinceEpoch": PERIOD, "key": "AQEB" * 14}
    welcome = f"/xmtp/mls/1/w-{phone.id}/proto"
    assert service.calls == [
        ("RegisterInstallation", {"installationId": phone.id, "deliveryMechanism": {"apnsDeviceToken": "ab" * 32}}),
        (
            "SubscribeWithMetadata",
            {
                "installationId": phone.id,
                "subscriptions": [
                    {"topic": CHAT.topic, "hmacKeys": [key], "isSilent": True},
                    {"topic": welcome, "hmacKeys": [], "isSilent": False},
                ],
            },
        ),
        ("Unsubscribe", {"installationId": phone.id, "topics": [CHAT.topic]}),
        ("DeleteInstallation", {"installationId": phone.id}),
    ]
