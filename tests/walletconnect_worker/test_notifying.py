"""A dapp's notifications: what wallets get by the relay, what match gets, and what receipts say."""

from hashlib import sha256

import pytest

from clarion import compact_json
from clarion.decisions import NotificationDecision, Purpose, PushDecision
from clarion.events import EnvelopeObserved, PushTried
from clarion.messages import read_match_message
from clarion.metrics import decided
from clarion.networks import WALLETCONNECT, network
from clarion.networks.walletconnect import rules
from clarion.networks.walletconnect.envelope import topic_of
from clarion.networks.walletconnect.jwt import verify
from clarion.networks.walletconnect.needs import MAILBOXES_FULL
from clarion.networks.walletconnect.notifications import WELCOME_NUMBER, SentNotification
from clarion.networks.walletconnect.projects import DappApp, Project, ProjectState
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.relay_publisher import PublishOutcome
from clarion.networks.walletconnect.sealed import SealedNotification
from tests.walletconnect_worker.stage import (
    APP,
    DOMAIN,
    FIRST_TYPE,
    NOW,
    PROJECT,
    SECOND_TYPE,
    Phone,
    Stage,
    app_row,
    opened,
)
from walletconnect.receipts import find_sent

DAY = 86_400


def message_claims(publication: Publication, phone: Phone) -> dict[str, object]:
    content = opened(publication, phone.sym_key)
    assert content["method"] == "wc_notifyMessage"
    token, subject = content["params"]["messageAuth"], phone.wallet.subject
    audience = subject if phone.profile == "document" else None
    return dict(
        verify(token, act="notify_message", now=NOW, audience=audience, app=f"did:web:{APP}", profile=phone.profile)
    )


def sent_rows(stage: Stage, phone: Phone) -> list[SentNotification]:
    return list(SentNotification.query(stage.row(phone).subscription_id))


def test_a_wallet_is_sent_what_its_dapp_notifies(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone, url="https://app.example.com/news", icon="https://i.example.com/i.png"))
    claims = message_claims(sent, phone)
    [row] = sent_rows(stage, phone)
    assert (sent.tag, sent.ttl, sent.prompt) == (4002, 30 * DAY, True)
    assert (claims["sub"], "aud" in claims) == (phone.wallet.subject, False)
    message = claims["msg"]
    assert isinstance(message, dict)
    assert message == message | row.content
    assert message | {"url": ""} == {
        "id": row.notification_id,
        "sent_at": NOW * 1000,
        "type": FIRST_TYPE,
        "title": "Hello ✓",
        "body": "Grüße ???>>>~~~",
        "icon": "https://i.example.com/i.png",
        "url": "",
        "is_read": False,
    }


def test_a_link_leads_by_way_of_the_server(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone, url="https://app.example.com/news"))
    [row] = sent_rows(stage, phone)
    message = message_claims(sent, phone)["msg"]
    assert isinstance(message, dict)
    assert message["url"].startswith(f"https://{DOMAIN}/v1/notification/")
    assert row.url == "https://app.example.com/news"


def test_a_document_s_wallet_is_sent_the_hash_of_its_subscription(stage: Stage) -> None:
    phone = stage.subscribed(profile="document")
    [sent] = stage.handle(stage.notify(phone))
    claims = message_claims(sent, phone)
    message = claims["msg"]
    assert isinstance(message, dict)
    assert (claims["sub"], claims["aud"]) == (stage.row(phone).hash, phone.wallet.subject)
    assert list(message) == ["title", "body", "icon", "url", "type"]
    assert message == sent_rows(stage, phone)[0].content


def test_match_is_given_the_same_envelope_as_the_relay(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone))
    [message] = map(read_match_message, stage.envelopes())
    envelope = network(WALLETCONNECT).decode(message.raw or b"")
    content = envelope.content
    assert isinstance(content, SealedNotification)
    assert (content.message, content.expires_at) == (sent.message, NOW + 30 * DAY)
    assert envelope.keys == [rules.key_of(bytes.fromhex(sent.topic))]
    assert [one.receipt for one in stage.emitted if isinstance(one, EnvelopeObserved)] == [message.receipt]


def test_each_subscriber_gets_one_of_its_own(stage: Stage) -> None:
    phones = [stage.subscribed(bytes([number]) * 32) for number in (1, 2, 3)]
    sent = stage.handle(stage.notify(*phones))
    assert {one.topic for one in sent} == {stage.row(phone).topic for phone in phones}
    assert len(stage.envelopes()) == 3


def test_who_no_longer_has_the_type_in_its_scope_gets_nothing(stage: Stage) -> None:
    phone = stage.subscribed()
    command = stage.notify(phone)
    stage.handle(phone.update(SECOND_TYPE))
    assert stage.handle(command) == []
    assert stage.worker.outbox.counts[decided(NotificationDecision.NOT_IN_SCOPE)] == 1


def test_who_has_unsubscribed_meanwhile_gets_nothing_nor_whoever_subscribed_anew(stage: Stage) -> None:
    phone = stage.subscribed()
    command = stage.notify(phone)
    stage.handle(phone.delete())
    assert stage.handle(command) == []
    stage.clock.now += 1
    stage.subscribed()
    assert stage.handle(command) == []


def test_what_a_project_notified_whose_domain_was_moved_away_is_sent_to_nobody(stage: Stage) -> None:
    phone = stage.subscribed()
    command = stage.notify(phone)
    app_row(phone.app).update([DappApp.project_id.set("cd" * 16)])
    assert stage.handle(command) == []
    assert len(stage.handle(command.model_copy(update={"project_id": "cd" * 16}))) == 1


def test_a_command_that_comes_again_sends_the_same_and_marks_nothing_unread(stage: Stage) -> None:
    phone = stage.subscribed()
    command = stage.notify(phone)
    first = stage.handle(command)
    stage.handle(phone.mark())
    stage.clock.now += 60
    assert stage.handle(command) == first
    assert [row.is_read for row in sent_rows(stage, phone)] == [True]
    assert len({read_match_message(body).receipt for body in stage.envelopes()}) == 1


def test_the_relay_s_failure_brings_the_command_again(stage: Stage) -> None:
    phone = stage.subscribed()
    record = stage.record(stage.notify(phone))
    stage.relay.failing = 1
    assert stage.worker.handle([record]) == [record["messageId"]]
    assert stage.worker.handle([record]) == []
    assert [one.tag for one in stage.relay.published] == [4001, 4002]


def test_what_the_relay_takes_is_published_once_and_phones_are_pushed_once(stage: Stage) -> None:
    phone, other = stage.subscribed(), stage.subscribed(b"o" * 32)
    command = stage.notify(phone, other)
    stage.relay.failing_topics = {topic_of(other.sym_key)}
    for receives in (1, 2):
        assert len(stage.worker.handle([stage.record(command, receives)])) == 1
    stage.relay.failing_topics = set()
    stage.handle(command, receives=3)
    published = [one.topic for one in stage.relay.published if one.tag == 4002]
    assert published == [topic_of(phone.sym_key), topic_of(other.sym_key)]
    assert len(stage.envelopes()) == 2


def test_what_was_received_before_but_never_begun_is_sent(stage: Stage) -> None:
    assert [one.tag for one in stage.handle(stage.notify(stage.subscribed()), receives=2)] == [4002]
    assert len(stage.envelopes()) == 1


def test_a_full_mailbox_is_counted_and_not_published_to_again(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.relay.outcome = PublishOutcome.MAILBOX_FULL
    assert len(stage.handle(stage.notify(phone))) == 1
    assert stage.worker.outbox.counts[MAILBOXES_FULL] == 1


def test_a_new_subscriber_is_welcomed_once(stage: Stage) -> None:
    stage.welcome(type=FIRST_TYPE, title="Welcome")
    phone = stage.phone()
    record = stage.record(phone.subscribe())
    stage.worker.handle([record])
    stage.worker.handle([record])
    phone.sym_key = stage.row(phone).sym_key
    stage.clock.now += 1
    stage.handle(phone.subscribe())
    stage.notify(phone)
    assert [(row.number, row.spent > 0, row.content["title"]) for row in sent_rows(stage, phone)] == [
        (WELCOME_NUMBER, False, "Welcome"),
        (WELCOME_NUMBER + 1, True, "Hello ✓"),
    ]


def test_a_deactivated_project_welcomes_nobody(stage: Stage) -> None:
    stage.welcome(type=FIRST_TYPE, title="Welcome")
    Project(PROJECT).update([Project.state.set(ProjectState.DEACTIVATED.value)])
    phone = stage.phone()
    assert [one.tag for one in stage.handle(phone.subscribe(FIRST_TYPE))] == [4001]


def test_who_does_not_want_the_type_of_the_welcome_is_not_welcomed(stage: Stage) -> None:
    stage.welcome(type=SECOND_TYPE, title="Welcome")
    phone = stage.phone()
    assert [one.tag for one in stage.handle(phone.subscribe(FIRST_TYPE))] == [4001]
    assert sent_rows(stage, phone) == []


def test_a_receipt_is_a_decision(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone))
    stage.clock.now += 2
    assert stage.handle(phone.receipt(sent)) == []
    [row] = sent_rows(stage, phone)
    [message] = map(read_match_message, stage.envelopes())
    [received] = [one for one in stage.emitted if isinstance(one, PushTried)]
    assert row.received_at == stage.clock.ms
    assert (received.decision, received.purpose, received.latency_ms) == (PushDecision.RECEIVED, Purpose.DIRECT, 2000)
    assert received.receipt == message.receipt
    assert received.envelope_id == network(WALLETCONNECT).decode(message.raw or b"").id


def test_a_notification_is_received_once(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone))
    stage.handle(phone.receipt(sent))
    stage.clock.now += 1
    stage.handle(phone.receipt(sent))
    assert stage.worker.outbox.counts[decided(PushDecision.RECEIVED)] == 1


def test_a_document_s_receipt_names_the_message_by_its_hash(stage: Stage) -> None:
    phone = stage.subscribed(profile="document")
    [sent] = stage.handle(stage.notify(phone))
    message = message_claims(sent, phone)["msg"]
    stage.handle(phone.receipt(sent, sub="0" * 64))
    assert [row.received_at for row in sent_rows(stage, phone)] == [None]
    stage.handle(phone.receipt(sent, sub=sha256(compact_json.encode(message)).hexdigest()))
    assert [row.received_at for row in sent_rows(stage, phone)] == [stage.clock.ms]


@pytest.mark.parametrize("rpc_id", [-1, 0, 1 << 80, "one", "9" * 100])
def test_a_receipt_of_nothing_that_was_sent_does_nothing(stage: Stage, rpc_id: int | str) -> None:
    phone = stage.subscribed()
    stage.handle(stage.notify(phone))
    assert find_sent(stage.row(phone).subscription_id, rpc_id) is None


def test_a_forged_receipt_does_nothing(stage: Stage) -> None:
    phone = stage.subscribed()
    [sent] = stage.handle(stage.notify(phone))
    forger = stage.phone(b"f" * 32, sym_key=phone.sym_key)
    stage.handle(forger.receipt(sent))
    assert [row.received_at for row in sent_rows(stage, phone)] == [None]
