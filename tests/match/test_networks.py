"""Match knows no network: envelopes of the toy one, which is unlike statements, take the same way through it."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from clarion.decisions import EnvelopeDecision, NotificationDecision, OwnMessages, Wanted
from clarion.messages import EnvelopeMessage
from clarion.metrics import Metric, decided
from clarion.networks import Rule
from clarion.settings import LimitSettings
from clarion.tables import WINDOW_PART, PushRecord, RateLimit, Subscription, pair_scope
from tests.match.ledger import look_again
from tests.match.meter import meter
from tests.match.scene import PAGE, Scene
from tests.toy import NETWORK, Saying, ToyBody, key_of, mark_of, rule_of

UNWANTED = [wanted for wanted in Wanted if not wanted.pushes]


@pytest.fixture(autouse=True)
def _registered(toy: str) -> None:
    """The toy network is there in each of these tests."""


HALL, PORCH, ATTIC = "hall", "porch", "an attic with a long name"


def here(scene: Scene, room: str) -> str:
    """A room in the scene's own house."""
    return f"{room} of {scene.sender.key.hex()}"


def rule(scene: Scene, room: str, wanted: Wanted = Wanted.ALERT, secret: bytes = b"a secret") -> Rule:
    return rule_of(here(scene, room), wanted, secret)


def hear(scene: Scene, text: str, *rooms: str, **others: Any) -> EnvelopeMessage:
    """What ingest makes of a saying in some rooms, or in the hall."""
    saying = Saying(rooms=tuple(here(scene, room) for room in rooms or (HALL,)), text=text, **others)
    return scene.show("toy", saying.to_raw())


def subscribe(scene: Scene, *rules: Rule, **others: Any) -> Subscription:
    """By default as those do who want an alert for what is said in the hall."""
    return scene.subscribe_to("toy", rules or [rule(scene, HALL)], **others)


def counted(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The metrics since the last look."""
    totals: dict[str, float] = {}
    for line in capsys.readouterr().out.splitlines():
        if '"_aws"' in line:
            for name, value in json.loads(line).items():
                totals[name] = totals.get(name, 0) + value[0] if isinstance(value, list) else 0
    return totals


def events() -> list[dict[str, Any]]:
    """What came to the lake since the last look."""
    s3 = boto3.client("s3")
    lines: list[str] = []
    for found in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
        lines += s3.get_object(Bucket="lake", Key=found["Key"])["Body"].read().decode().splitlines()
        s3.delete_object(Bucket="lake", Key=found["Key"])
    return [json.loads(line) for line in lines]


@pytest.fixture
def lake() -> Iterator[None]:
    events()
    yield
    events()


def test_an_envelope_of_any_network_becomes_a_push_with_that_networks_body(scene: Scene) -> None:
    subscription = subscribe(scene, rule(scene, ATTIC), client_id=b"a client")
    message = hear(scene, "hello", HALL, ATTIC, author="ann")
    assert scene.take(message) == set()
    [push] = scene.pushes()
    assert (push.network, push.receipt, push.client_id) == ("toy", message.receipt, b"a client")
    assert str(push.subscription_id) == subscription.subscription_id
    assert push.body == ToyBody(room=here(scene, ATTIC), text="hello")


@pytest.mark.parametrize("wanted", [wanted for wanted in Wanted if wanted.pushes])
def test_a_push_is_made_as_its_rule_wants_it(scene: Scene, wanted: Wanted) -> None:
    subscribe(scene, rule(scene, HALL, wanted))
    scene.take(hear(scene, "hello"))
    assert [push.wanted for push in scene.pushes()] == [wanted]


@pytest.mark.parametrize("wanted", UNWANTED)
def test_what_a_rule_does_not_want_pushed_is_decided_in_its_word_and_claims_nothing(
    scene: Scene, wanted: Wanted, capsys: pytest.CaptureFixture[str], lake: None
) -> None:
    subscription = subscribe(scene, rule(scene, HALL, wanted))
    with meter.running() as bill:
        assert scene.take(hear(scene, "hello")) == set()
    assert bill.writes == 0
    assert scene.pushes() == []
    metrics = counted(capsys)
    decision = NotificationDecision(wanted.value)
    assert metrics[decided(decision)] == 1
    assert metrics[decided(EnvelopeDecision.MATCHED)] == 1
    [event] = [event for event in events() if event["event"] == "notification"]
    assert (event["decision"], event["subscription_id"]) == (decision, subscription.subscription_id)
    assert (event["network"], event["key"]) == ("toy", key_of(here(scene, HALL)).hex())


def test_an_own_message_is_known_by_the_secret_in_the_condition(scene: Scene) -> None:
    mine, others = (subscribe(scene, rule(scene, HALL, secret=secret)) for secret in (b"mine", b"another"))
    scene.take(hear(scene, "hello", mark=mark_of(b"mine", "hello")))
    assert [str(push.subscription_id) for push in scene.pushes()] == [others.subscription_id]
    assert mine.subscription_id != others.subscription_id


def test_an_own_message_is_wanted_as_any_other_where_the_app_has_it_delivered(scene: Scene, lake: None) -> None:
    rules = [rule(scene, HALL, Wanted.NOT_IN_SCOPE, b"mine"), rule(scene, PORCH, Wanted.BACKGROUND, b"mine")]
    subscription = subscribe(scene, *rules)
    own_messages = {"first": OwnMessages.DELIVER}
    scene.settings = scene.settings.model_copy(update={"first_app": "first", "own_messages": own_messages})
    scene.elsewhere().take(hear(scene, "hello", HALL, PORCH, mark=mark_of(b"mine", "hello")))
    assert [(str(push.subscription_id), push.wanted) for push in scene.pushes()] == [
        (subscription.subscription_id, Wanted.BACKGROUND)
    ]
    [event] = [event for event in events() if event["event"] == "notification"]
    assert (event["decision"], event["own"]) == ("queued", True)


def test_of_several_rules_the_least_rank_counts_under_the_first_key_that_pushes(scene: Scene) -> None:
    rules = [
        rule(scene, PORCH, Wanted.NOT_IN_SCOPE),
        rule(scene, HALL, Wanted.BACKGROUND),
        rule(scene, ATTIC, Wanted.CALL),
    ]
    subscribe(scene, *rules)
    scene.take(hear(scene, "hello", PORCH, HALL, ATTIC))
    [push] = scene.pushes()
    assert (push.wanted, push.body) == (Wanted.CALL, ToyBody(room=here(scene, HALL), text="hello"))


def test_of_several_rules_that_do_not_push_the_least_rank_is_the_decision(scene: Scene, lake: None) -> None:
    subscribe(scene, rule(scene, PORCH, Wanted.NOT_IN_SCOPE), rule(scene, HALL, Wanted.OWN_MESSAGE))
    scene.take(hear(scene, "hello", PORCH, HALL))
    [event] = [event for event in events() if event["event"] == "notification"]
    assert (event["decision"], event["key"]) == ("own_message", key_of(here(scene, HALL)).hex())


@pytest.mark.parametrize("in_doubt", [False, True])
def test_who_has_a_condition_that_cannot_be_read_is_left_out_and_all_others_get_their_pushes(
    scene: Scene, capsys: pytest.CaptureFixture[str], *, in_doubt: bool
) -> None:
    unreadable = Rule(key_of(here(scene, HALL)), b"loudly")
    broken = subscribe(scene, unreadable, generation=1 + in_doubt)
    if in_doubt:
        scene.add_rule(broken.subscription_id, unreadable, generation=2, seen=False)
    other = subscribe(scene)
    assert scene.take(hear(scene, "hello")) == set()
    assert [str(push.subscription_id) for push in scene.pushes()] == [other.subscription_id]
    assert counted(capsys)[Metric.RECEIVERS_UNREADABLE] == 1


def test_without_a_limit_no_window_is_kept_and_no_pace_refused(scene: Scene) -> None:
    subscription = subscribe(scene)
    messages = [hear(scene, f"number {number}", author="ann") for number in range(50)]
    scene.take(*messages)
    assert len(scene.pushes()) == 50
    assert RateLimit.count(pair_of(subscription)) == 0


def pair_of(subscription: Subscription, sender: bytes = b"ann") -> bytes:
    return pair_scope(NETWORK.number, sender, subscription.client_id)


def limited(scene: Scene, count: int) -> Scene:
    limits = {"toy": LimitSettings(count=count, window_seconds=60, cooldown_seconds=120)}
    scene.settings = scene.settings.model_copy(update={"limits": limits})
    return scene.elsewhere()


def test_a_limit_from_the_settings_counts_for_a_network_that_has_none(scene: Scene) -> None:
    subscription = subscribe(scene)
    scene = limited(scene, 3)
    scene.take(*(hear(scene, f"number {number}", author="ann") for number in range(5)))
    assert len(scene.pushes()) == 3
    row = RateLimit.get(pair_of(subscription), WINDOW_PART)
    assert len(row.admitted) == 3 * 14


def test_what_has_no_sender_is_counted_in_no_window(scene: Scene) -> None:
    subscribe(scene)
    scene = limited(scene, 3)
    scene.take(*(hear(scene, f"number {number}") for number in range(5)))
    assert len(scene.pushes()) == 5


def test_without_a_window_the_claim_tells_a_duplicate_from_a_retry(scene: Scene) -> None:
    subscription = subscribe(scene)
    first, second = hear(scene, "hello"), hear(scene, "hello")
    scene.take(first)
    scene.take(second)
    scene.elsewhere().take(first)
    assert [push.receipt for push in scene.pushes()] == [first.receipt] * 2
    envelope = NETWORK.decode(first.raw or b"")
    assert PushRecord.get(subscription.subscription_id, envelope.id).receipt == str(first.receipt)


def test_without_a_window_the_cap_holds_and_a_retry_passes_it(scene: Scene) -> None:
    subscribe(scene)
    scene.settings = scene.settings.model_copy(update={"subscription_cap": 20})
    capped = scene.elsewhere()
    messages = [hear(scene, f"number {number}") for number in range(30)]
    capped.take(*messages)
    assert len(scene.pushes()) == 20
    capped.take(*messages)
    assert len(scene.pushes()) == 20


def test_a_crowd_of_any_network_gets_its_pushes_page_by_page(scene: Scene) -> None:
    crowd = {subscribe(scene).subscription_id for _ in range(2 * PAGE)}
    scene.take(hear(scene, "hello"))
    while waiting := scene.again():
        assert scene.take(*waiting) == set()
    pushes = scene.pushes()
    assert {str(push.subscription_id) for push in pushes} == crowd
    assert len(pushes) == len(crowd)


def test_a_second_look_works_for_any_network(scene: Scene) -> None:
    name = subscribe(scene, rule(scene, ATTIC)).subscription_id
    scene.add_rule(name, rule(scene, HALL, Wanted.CALL), seen=False)
    scene.take(look_again(hear(scene, "hello"), name))
    assert [(str(push.subscription_id), push.wanted) for push in scene.pushes()] == [(name, Wanted.CALL)]


@pytest.mark.parametrize(
    ("others", "decision"),
    [
        ({"expires_at": 1}, EnvelopeDecision.EXPIRED),
        ({"genuine": False}, EnvelopeDecision.BAD_SIGNATURE),
        ({}, EnvelopeDecision.UNMATCHED),
    ],
)
def test_an_envelope_that_wakes_nobody_is_decided_in_one_word(
    scene: Scene, capsys: pytest.CaptureFixture[str], others: dict[str, Any], decision: EnvelopeDecision
) -> None:
    subscribe(scene)
    assert scene.take(hear(scene, "hello", PORCH, **others)) == set()
    assert scene.pushes() == []
    assert counted(capsys)[decided(decision)] == 1


def test_what_a_network_cannot_have_shown_is_malformed(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.take(scene.show("toy", b"nonsense")) == set()
    assert counted(capsys)[decided(EnvelopeDecision.MALFORMED)] == 1


def test_a_worker_records_the_limits_that_it_decides_by_once_for_each_network(scene: Scene, lake: None) -> None:
    scene = limited(scene, 3)
    for _ in range(2):
        scene.take(hear(scene, "hello"), *scene.observe_new(1))
    found = {event["network"]: event for event in events() if event["event"] == "limits"}
    assert {name: (one.get("count"), one["cap"]) for name, one in found.items()} == {
        "toy": (3, 300),
        "statements": (30, 300),
    }
    scene.elsewhere().take(hear(scene, "hello"))
    assert [event["network"] for event in events() if event["event"] == "limits"] == ["toy"]


def test_a_message_of_a_network_that_is_not_registered_is_unreadable(scene: Scene) -> None:
    body = hear(scene, "hello").to_json().replace('"toy"', '"unknown"')
    assert scene.take(body) == {0}
