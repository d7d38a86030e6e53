import pytest

from clarion.networks.xmtp.topics import MessageKind, conversation_topic, group_topic, kind_of, welcome_topic


def test_there_are_no_kinds_but_those_that_pushes_come_from() -> None:
    assert {*MessageKind} == {"v3-conversation", "v3-welcome", "v2-conversation", "unknown"}


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("/xmtp/mls/1/g-00ff/proto", MessageKind.V3_CONVERSATION),
        ("/xmtp/mls/1/w-aabb/proto", MessageKind.V3_WELCOME),
        ("/xmtp/0/m-0102/proto", MessageKind.V2_CONVERSATION),
        ("/xmtp/0/invite-0xabc/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/dm-0xabc-0xdef/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/intro-0xabc/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/contact-0xabc/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/privatestore-0xabc/key_bundle/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/userpreferences-abc/proto", MessageKind.UNKNOWN),
        ("/xmtp/0/g-00ff/proto", MessageKind.UNKNOWN),
        ("/xmtp/mls/1/m-0102/proto", MessageKind.UNKNOWN),
        ("/xmtp/mls/2/g-00ff/proto", MessageKind.UNKNOWN),
        ("/xmtp/mls/1/g", MessageKind.UNKNOWN),
        ("g-00ff", MessageKind.UNKNOWN),
        ("-", MessageKind.UNKNOWN),
        ("", MessageKind.UNKNOWN),
    ],
)
def test_a_topics_prefix_says_what_it_holds(topic: str, kind: MessageKind) -> None:
    assert kind_of(topic) is kind


def test_topics_are_made_of_ids() -> None:
    assert group_topic(b"\x00\xff") == "/xmtp/mls/1/g-00ff/proto"
    assert welcome_topic(b"\xaa\xbb") == "/xmtp/mls/1/w-aabb/proto"
    assert conversation_topic("0102") == "/xmtp/0/m-0102/proto"
