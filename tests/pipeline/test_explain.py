"""What `explain` answers, and that it needs no Spark for it."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, LimitsLoaded, NotificationDecided
from clarion.networks import STATEMENTS, XMTP, network
from clarion.subscription_events import RuleRef, RulesChanged
from pipeline.__main__ import main
from pipeline.columns import REMOVED
from pipeline.explain import request
from pipeline.explain.explanation import Explanation
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import Manifest, commit, new_commit, update
from pipeline.lake.lookup import Lookup
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.lake.plans import run_name
from pipeline.lake.snapshots import day_of, snapshot_name
from pipeline.period import CLOCK_SKEW_MS, DAY_MS, HOUR_MS, Period, hour_path, hour_runs, instant_text
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, TABLET, SmallLake, Way, ruled, statement, subscribed
from tests.xmtp import Inbox

PERIOD = Period(START - DAY_MS, START + DAY_MS)


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    """With a subscription that has a rule for all that is sent in these tests."""
    made = SmallLake(tmp_path / "lake")
    made.commit(subscribed(), ruled(Way().key))
    return made


def explained(lake: SmallLake, asked: bytes | UUID) -> Explanation:
    return explain(Lookup(lake.root), ExplainRequest(asked, PERIOD))


def founds(explanation: Explanation) -> list[list[str]]:
    return [[one.verdict.found for one in receipt.notifications] for receipt in explanation.receipts]


def test_what_was_delivered_is_right_and_says_why(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*way.delivered())
    answer = explained(lake, way.envelope_id)
    (receipt,) = answer.receipts
    (notification,) = receipt.notifications
    assert (answer.what, receipt.receipt, receipt.verdict.found) == ("envelope", str(way.receipt), "right")
    assert [step.what for step in (*receipt.steps, *notification.steps)] == [
        "observed",
        "matched",
        "queued",
        "delivered",
    ]
    assert (notification.verdict.found, notification.verdict.should_be) == ("right", "queued")
    assert "A rule in force since" in notification.verdict.reasons[0]


def test_of_an_envelope_only_the_hours_around_it_are_named_where_the_lake_has_nothing_of_them(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*way.delivered())
    assert explained(lake, way.receipt).absent == [hour_path(START + HOUR_MS)]
    assert len(explained(lake, PHONE).absent) > 40


def test_a_receipt_is_answered_as_its_envelope_is(lake: SmallLake) -> None:
    way = Way()
    again = Way(START + HOUR_MS, number=2, raw=way.raw)
    lake.commit(*way.delivered())
    lake.commit(again.observed(), again.envelope(), again.notification(NotificationDecision.DUPLICATE))
    answer = explained(lake, again.receipt)
    assert answer.what == "receipt"
    assert [receipt.receipt for receipt in answer.receipts] == [str(way.receipt), str(again.receipt)]
    duplicate = answer.receipts[1].notifications[0].verdict
    assert (duplicate.found, duplicate.should_be) == ("right", "duplicate")
    assert str(way.receipt) in duplicate.reasons[0]


def test_an_envelope_that_was_never_decided_is_found_by_its_bytes_and_missing(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*Way(number=2).delivered(), way.observed())
    answer = explained(lake, way.envelope_id)
    (verdict,) = [one.verdict for one in answer.receipts[0].notifications]
    assert (verdict.found, verdict.should_be) == ("missing", "queued")
    assert "never decided" in verdict.reasons[-1]


def test_an_envelope_that_was_decided_for_some_alone_as_by_a_replay_is_no_difference(lake: SmallLake) -> None:
    way = Way()
    lake.commit(way.observed(), way.notification(), way.push())
    (answer,) = explained(lake, way.envelope_id).receipts
    assert (answer.verdict.found, answer.verdict.should_be) == ("right", "matched")


def test_of_two_receipts_that_were_never_decided_one_is_missing(lake: SmallLake) -> None:
    way = Way()
    again = Way(START + 60_000, number=2, raw=way.raw)
    lake.commit(way.observed(), again.observed())
    answer = explained(lake, way.envelope_id)
    assert founds(answer) == [["missing"], ["right"]]
    assert answer.receipts[1].notifications[0].verdict.should_be == "duplicate"


def test_hours_that_are_not_compacted_are_read_as_they_came(lake: SmallLake) -> None:
    way = Way()
    lake.stream(*way.delivered())
    lake.commit(*Way(START + HOUR_MS, number=2).delivered())
    answer = explained(lake, way.envelope_id)
    assert founds(answer) == [["right"]]
    assert len(answer.pending) == 1
    assert "not compacted yet" in "\n".join(answer.lines())


def test_a_late_file_of_a_compacted_hour_is_read_as_well(lake: SmallLake) -> None:
    way = Way()
    lake.commit(way.observed(), way.envelope(), way.notification())
    assert founds(explained(lake, way.envelope_id)) == [["missing"]]
    lake.stream(way.push())
    assert founds(explained(lake, way.envelope_id)) == [["right"]]


@pytest.mark.parametrize(
    ("decision", "latency_ms", "found"),
    [
        (PushDecision.DELIVERED, 61_000, "late"),
        (PushDecision.STALE, 300, "late"),
        (PushDecision.RETRY, 300, "missing"),
        (PushDecision.TOKEN_GONE, 300, "right"),
    ],
)
def test_what_was_queued_has_to_end_at_its_provider_in_time(
    lake: SmallLake, decision: PushDecision, latency_ms: int, found: str
) -> None:
    way = Way()
    lake.commit(way.observed(), way.envelope(), way.notification(), way.push(decision, latency_ms=latency_ms))
    assert founds(explained(lake, way.envelope_id)) == [[found]]


@pytest.mark.parametrize(("given_up", "found"), [(True, "missing"), (False, "right")])
def test_what_was_refused_after_many_attempts_is_right_if_it_was_not_given_up(
    lake: SmallLake, given_up: bool, found: str
) -> None:
    way = Way()
    refused = {"attempt": 7, "status": 503, "given_up": given_up}
    lake.commit(way.observed(), way.envelope(), way.notification())
    lake.commit(way.push(PushDecision.REFUSED).model_copy(update=refused))
    answer = explained(lake, way.envelope_id)
    assert founds(answer) == [[found]]
    assert ("status 503, given up" in "\n".join(answer.lines())) == given_up


def test_what_nothing_bears_out_was_wrongly_dropped(lake: SmallLake) -> None:
    way = Way()
    lake.commit(way.observed(), way.envelope(), way.notification(NotificationDecision.RATE_LIMITED))
    assert founds(explained(lake, way.envelope_id)) == [["wrongly_dropped"]]


def test_one_more_than_the_limit_is_rightly_refused_and_names_the_window(lake: SmallLake) -> None:
    flood = [Way(START + 1_000 * number, number) for number in range(1, 31)]
    last = Way(START + 31_000, 99)
    lake.commit(*(event for way in flood for event in way.delivered()))
    lake.commit(last.observed(), last.envelope(), last.notification(NotificationDecision.RATE_LIMITED))
    verdict = explained(lake, last.envelope_id).receipts[0].notifications[0].verdict
    assert (verdict.found, verdict.should_be) == ("right", "rate_limited")
    assert "30 of this sender had passed within 60 s" in verdict.reasons[0]


def test_a_cooldown_is_named_with_its_times(lake: SmallLake) -> None:
    flood = [Way(START + 1_000 * number, number) for number in range(1, 31)]
    refused = [Way(START + 31_000 + 1_000 * number, 90 + number) for number in range(2)]
    lake.commit(*(event for way in flood for event in way.delivered()))
    limited = NotificationDecision.RATE_LIMITED
    lake.commit(*(event for way in refused for event in (way.observed(), way.envelope(), way.notification(limited))))
    verdict = explained(lake, refused[1].envelope_id).receipts[0].notifications[0].verdict
    assert (verdict.found, verdict.should_be) == ("right", "rate_limited")
    assert "in a cooldown" in verdict.reasons[0]


def test_a_forged_envelope_that_was_pushed_is_unexpected(lake: SmallLake) -> None:
    raw = statement(1)
    way = Way(raw=raw[:3] + bytes([raw[3] ^ 1]) + raw[4:])
    lake.commit(*way.delivered())
    answer = explained(lake, way.envelope_id)
    assert (answer.receipts[0].verdict.found, answer.receipts[0].verdict.should_be) == ("unexpected", "bad_signature")
    assert founds(answer) == [["unexpected"]]


def test_a_push_to_a_subscription_that_was_removed_before_is_unexpected(lake: SmallLake) -> None:
    lake.commit(subscribed(at=START - 120_000, status="removed", revision=2))
    way = Way()
    lake.commit(*way.delivered())
    (notification,) = explained(lake, way.envelope_id).receipts[0].notifications
    assert notification.verdict.found == "unexpected"
    assert "No rule" in notification.verdict.reasons[0]


def test_so_close_to_a_change_of_rules_either_way_is_right(lake: SmallLake) -> None:
    lake.commit(subscribed(TABLET, OTHER, at=START - 5_000), ruled(Way().key, TABLET, at=START - 5_000))
    way = Way()
    lake.commit(*way.delivered())
    answer = explained(lake, way.envelope_id)
    verdicts = {one.subscription_id: one.verdict for one in answer.receipts[0].notifications}
    assert verdicts[str(TABLET)].found == "right"
    assert "either way is right" in verdicts[str(TABLET)].reasons[-1]


def test_one_clients_part_is_answered_alone(lake: SmallLake) -> None:
    lake.commit(subscribed(TABLET, OTHER), ruled(Way().key, TABLET))
    way = Way()
    lake.commit(*way.delivered())
    answer = explain(Lookup(lake.root), ExplainRequest(way.envelope_id, PERIOD, client=OTHER))
    (notification,) = answer.receipts[0].notifications
    assert (notification.client_id, notification.verdict.found) == (OTHER.hex(), "missing")


@pytest.mark.parametrize("decision", list(EnvelopeDecision))
def test_an_envelope_is_judged_by_all_rules_whichever_client_is_asked_for(
    lake: SmallLake, decision: EnvelopeDecision
) -> None:
    """A client that is no receiver, too: the envelope was matched for another."""
    way = Way()
    lake.commit(way.observed(), way.envelope(decision), way.notification(), way.push())
    found = [
        explain(Lookup(lake.root), ExplainRequest(way.envelope_id, PERIOD, client)).receipts[0].verdict
        for client in (None, CLIENT, OTHER)
    ]
    assert found == [found[0]] * 3
    assert found[0].should_be == "matched"


def test_a_client_that_is_no_receiver_is_said_to_be_none(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*way.delivered())
    answer = explain(Lookup(lake.root), ExplainRequest(way.receipt, PERIOD, client=OTHER))
    assert founds(answer) == [[]]
    assert answer.notes == [f"No rule of client {OTHER.hex()} named it, and nothing was decided for it."]


def test_what_others_got_while_a_rule_was_not_in_force_was_rightly_matched(lake: SmallLake) -> None:
    ended, way = Way(START + HOUR_MS), Way(START + 2 * HOUR_MS, 2)
    lake.commit(subscribed(TABLET, OTHER), ruled(way.key, TABLET))
    lake.commit(subscribed(at=ended.began, status=REMOVED, revision=2))
    lake.commit(way.observed(), way.envelope(), way.notification(to=TABLET, client=OTHER), way.push(to=TABLET))
    (receipt,) = explained(lake, PHONE).receipts
    assert (receipt.verdict.found, receipt.verdict.should_be) == ("right", "matched")
    assert receipt.notifications == []


def test_a_subscription_of_another_client_is_bad_usage(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", str(PHONE), "--lake", lake.root, "--client"]
    assert main([*words, OTHER.hex(), "--to", instant_text(PERIOD.end)]) == 2
    assert f"subscription {PHONE} is not of client {OTHER.hex()}" in capsys.readouterr().err
    assert main([*words, CLIENT.hex(), "--to", instant_text(PERIOD.end)]) == 1


def test_of_a_crowd_some_are_judged_and_a_client_always(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MAX_SUBSCRIPTIONS", 1)
    lake.commit(subscribed(TABLET, OTHER), ruled(Way().key, TABLET))
    way = Way()
    lake.commit(*way.delivered())
    answer = explained(lake, way.envelope_id)
    assert founds(answer) == [["missing"]]
    assert "1 other subscriptions are not judged: --client names one." in answer.notes
    assert founds(explain(Lookup(lake.root), ExplainRequest(way.envelope_id, PERIOD, client=CLIENT))) == [["right"]]


def test_a_subscription_is_answered_with_its_life_and_what_it_should_have_got(lake: SmallLake) -> None:
    delivered, lost, foreign = Way(), Way(START + 1_000, 2), Way(START, 3, statement(3, sender=2))
    lake.commit(*delivered.delivered(), lost.observed(), foreign.observed())
    answer = explained(lake, PHONE)
    assert answer.what == "subscription"
    [life] = answer.lives
    assert (life.subscription_id, [step.what for step in life.steps]) == (str(PHONE), ["active", "rule"])
    assert [receipt.receipt for receipt in answer.receipts] == [str(lost.receipt), str(delivered.receipt)]
    assert founds(answer) == [["missing"], ["right"]]


def test_a_client_is_answered_with_all_of_its_subscriptions_and_what_each_should_have_got(lake: SmallLake) -> None:
    other_rule = Way(number=2, raw=statement(2, sender=2)).key
    lake.commit(subscribed(TABLET, at=START - 2 * HOUR_MS), ruled(other_rule, TABLET, at=START - 2 * HOUR_MS))
    lake.commit(subscribed(UUID(int=3), OTHER), ruled(Way().key, UUID(int=3)))
    delivered, lost = Way(), Way(START + 1_000, 2, statement(2, sender=2))
    lake.commit(*delivered.delivered(), lost.observed())
    answer = explain(Lookup(lake.root), ExplainRequest(None, PERIOD, client=CLIENT))
    assert (answer.what, answer.asked) == ("client", CLIENT.hex())
    assert [life.subscription_id for life in answer.lives] == [str(PHONE), str(TABLET)]
    assert [[one.subscription_id for one in receipt.notifications] for receipt in answer.receipts] == [
        [str(TABLET)], [str(PHONE)],
    ]  # fmt: skip
    assert founds(answer) == [["missing"], ["right"]]


def test_a_client_that_has_no_subscription_is_unknown(lake: SmallLake) -> None:
    answer = explain(Lookup(lake.root), ExplainRequest(None, PERIOD, client=OTHER))
    assert (answer.what, answer.asked, answer.found) == (None, None, False)


def test_hours_in_which_nothing_was_observed_are_named(lake: SmallLake) -> None:
    """One that is not compacted may be anything."""
    way = Way()
    lake.commit(*way.delivered())
    lake.commit(subscribed(TABLET, OTHER), at=START + 2 * HOUR_MS)
    lake.stream(subscribed(TABLET, OTHER), at=START + 4 * HOUR_MS)
    answer = explain(Lookup(lake.root), ExplainRequest(None, PERIOD, client=CLIENT))
    assert answer.quiet == [hour_path(START - HOUR_MS), hour_path(START + 2 * HOUR_MS)]
    assert "In 2 of these hours nothing was observed: " in "\n".join(answer.lines())


def test_a_duplicate_is_right_if_its_claim_is_days_older_than_the_period(lake: SmallLake) -> None:
    first = Way(START - 3 * DAY_MS)
    again = Way(number=2, raw=first.raw)
    lake.commit(subscribed(at=START - 4 * DAY_MS), ruled(Way().key, at=START - 4 * DAY_MS))
    lake.commit(*first.delivered())
    lake.commit(again.observed(), again.envelope(), again.notification(NotificationDecision.DUPLICATE))
    answer = explain(Lookup(lake.root), ExplainRequest(PHONE, Period(START - HOUR_MS, START + HOUR_MS)))
    assert founds(answer) == [["right"]]


def snapshot(lake: SmallLake, name: str, day: int, *rows: dict[str, object]) -> None:
    """As the pipeline commits it for a day."""
    home = f"snapshots/{name}/day={hour_path(day)[:10]}"
    batch = pa.RecordBatch.from_pylist(list(rows))
    kinds = {home: (write_parquet(lake.root, f"{home}/commit=1", [batch]),)}
    commit(lake.root, Manifest(home, new_commit(), kinds=kinds), None)


def test_what_lasts_is_known_from_the_last_snapshot_before(tmp_path: Path) -> None:
    """The lines themselves have expired long ago."""
    lake, way, day = SmallLake(tmp_path / "lake"), Way(), START - 2 * DAY_MS
    known = {"happened_at": 1_000, "subscription_id": str(PHONE), "generation": 1, "revision": 1}
    snapshot(lake, "subscription", day, {
        **known, "network": "statements", "client_id": CLIENT, "channel": "apns", "status": "active",
        "status_reason": None, "ruled_at": 1_000,
    })  # fmt: skip
    rule = {"key": way.key, "condition": b"voip", "condition_digest": None}
    snapshot(lake, "rules", day, {**known, "change": "added", **rule})
    limits = {"count": 1, "count_window": 60_000, "cooldown": 0, "cap": 300, "cap_window": 60_000}
    snapshot(lake, "limits", day, {"happened_at": 1_000, "network": "statements", **limits})
    lake.commit(*way.delivered())
    for asked in (way.envelope_id, PHONE):
        (receipt,) = explained(lake, asked).receipts
        verdict = receipt.notifications[0].verdict
        assert verdict.found == "right"
        assert "So it is wanted as call." in verdict.reasons
        assert "0 others of this sender had passed near it; 1 may within 60 s." in verdict.reasons


def test_a_rule_that_a_snapshot_could_not_read_is_in_doubt_until_somebody_can(tmp_path: Path) -> None:
    lake, way, day, hour = SmallLake(tmp_path / "lake"), Way(), START - 2 * DAY_MS, hour_path(START - 9 * DAY_MS)
    known = {"happened_at": 1_000, "subscription_id": str(PHONE), "generation": 1, "revision": 1}
    snapshot(lake, "subscription", day, {
        **known, "network": "statements", "client_id": CLIENT, "channel": "apns", "status": "active",
        "status_reason": None, "ruled_at": 1_000,
    })  # fmt: skip
    rule = {"key": b"another", "condition": b"alert", "condition_digest": None}
    snapshot(lake, "rules", day, {**known, "change": "added", **rule})
    for kind in ("subscription", "rules"):
        update(lake.root, snapshot_name(kind, day_of(day)), lambda known: replace(known, unread={hour: 1}))
    unreadable = DataFile("unreadable/none", 2, 0, "")
    update(lake.root, hour, lambda known: replace(known, sealed_at=1, kinds={"unreadable": (unreadable,)}))
    lake.commit(*way.delivered())
    answer = explained(lake, way.envelope_id)
    assert (founds(answer), answer.doubts[0]) == ([["unexpected"]], f"2 lines of {hour} can't be read")
    update(lake.root, hour, lambda known: replace(known, kinds={}))
    lake.commit(ruled(way.key, at=2_000), at=START - 9 * DAY_MS)
    answer = explained(lake, way.envelope_id)
    assert (founds(answer), answer.doubts) == ([["right"]], [])


def test_a_snapshot_of_the_same_day_is_too_young_to_judge_by(lake: SmallLake) -> None:
    removed = {"happened_at": START + 1, "subscription_id": str(PHONE), "generation": 1, "revision": 9}
    snapshot(lake, "subscription", START, {
        **removed, "network": "statements", "client_id": CLIENT, "channel": "apns", "status": "removed",
        "status_reason": None, "ruled_at": None,
    })  # fmt: skip
    way = Way()
    lake.commit(*way.delivered())
    assert founds(explained(lake, way.envelope_id)) == [["right"]]


def test_a_duplicate_is_right_if_a_snapshot_has_its_claim_of_weeks_ago(lake: SmallLake) -> None:
    way, first = Way(), START - 20 * DAY_MS
    snapshot(lake, "claims", first, {
        "envelope_id": way.envelope_id, "subscription_id": str(PHONE), "receipt": str(UUID(int=9)), "decision": "queued",
        "happened_at": first, "until": START + DAY_MS,
    })  # fmt: skip
    lake.commit(way.observed(), way.envelope(), way.notification(NotificationDecision.DUPLICATE))
    for asked in (way.envelope_id, PHONE):
        verdict = explained(lake, asked).receipts[0].notifications[0].verdict
        assert (verdict.found, verdict.should_be) == ("right", "duplicate")
        assert str(UUID(int=9)) in verdict.reasons[0]


def test_a_secret_condition_is_said_to_be_unjudged(lake: SmallLake) -> None:
    inbox, at = Inbox(b"alix"), START // 1000
    raw = Inbox(b"bo").message(at)
    message = network(XMTP).decode(raw)
    shown = {"network": XMTP, "receipt": UUID(int=7)}
    told = {**shown, "envelope_id": message.id, "at": START + 100}
    rules = (RuleRef.of(inbox.rule(at), secret=True),)
    whose = {"subscription_id": TABLET, "client_id": OTHER, "channel": "apns"}
    lake.commit(
        subscribed(TABLET, OTHER),
        RulesChanged(
            network=XMTP,
            at=START - HOUR_MS,
            change="added",
            subscription_id=TABLET,
            generation=1,
            revision=1,
            rules=rules,
        ),
    )
    lake.commit(
        EnvelopeObserved(at=START, observed_at=START, raw=raw, **shown),
        EnvelopeDecided(decision=EnvelopeDecision.MATCHED, observed_at=START, sender=message.sender, **told),
        NotificationDecided(decision=NotificationDecision.OWN_MESSAGE, key=message.keys[0], **whose, **told),
    )
    verdict = explained(lake, message.id).receipts[0].notifications[0].verdict
    assert verdict.found == "unjudged"
    assert "condition is secret" in verdict.reasons[-1]


def test_what_a_replay_has_sent_again_is_right_since(lake: SmallLake) -> None:
    way = Way()
    lake.commit(way.observed(), way.envelope(), way.notification(), way.push(latency_ms=100_000_000))
    assert founds(explained(lake, way.envelope_id)) == [["late"]]
    plan = pa.RecordBatch.from_pydict({"receipt": [str(way.receipt)], "subscription_id": [str(PHONE)]})
    name = run_name("000001")
    kinds = {name: (write_parquet(lake.root, name, [plan]),)}
    commit(lake.root, Manifest(name, new_commit(), START, kinds=kinds), None)
    assert founds(explained(lake, way.envelope_id)) == [["right"]]


def test_what_the_lake_does_not_know_is_not_repeated(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be one of Apple's tokens."""
    for words in ([], ["--json"]):
        assert main(["explain", "d15ea5ed" * 8, "--lake", lake.root, *words]) == 1
        said = capsys.readouterr()
        assert "d15ea5ed" not in said.out + said.err
    assert json.loads(said.out)["what"] is None


@pytest.mark.parametrize("wrong", ["abc", "zz" * 32, "0x1234"])
def test_what_is_no_id_is_bad_usage(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", wrong, "--lake", str(tmp_path)])
    assert ended.value.code == 2
    assert wrong not in capsys.readouterr().err


def test_it_imports_no_spark_and_its_json_has_the_verdict(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*way.delivered())
    words = ["explain", way.envelope_id.hex(), "--lake", lake.root, "--json", "--to", instant_text(PERIOD.end)]
    code = (
        "import sys; from pipeline.__main__ import main; status = main(sys.argv[1:]); "
        "sys.exit(status or 'pyspark' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    (receipt,) = json.loads(ran.stdout)["receipts"]
    assert receipt["notifications"][0]["verdict"]["found"] == "right"


def test_what_came_of_an_envelope_may_lie_in_a_file_that_was_begun_before_midnight(lake: SmallLake) -> None:
    midnight = START // DAY_MS * DAY_MS
    way = Way(midnight + CLOCK_SKEW_MS + 60_000)
    lake.commit(way.observed(), way.envelope(), way.notification(), at=midnight)
    lake.commit(way.push(), at=midnight - HOUR_MS)
    period = Period(midnight - DAY_MS, midnight + DAY_MS)
    answer = explain(Lookup(lake.root), ExplainRequest(way.envelope_id, period))
    assert [step.what for step in answer.receipts[0].notifications[0].steps] == ["queued", "delivered"]


def test_a_subscription_without_an_envelope_ends_with_1_and_names_the_hours_of_which_nothing_is_there(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.commit(*Way(START - 3 * HOUR_MS, 2, statement(2, sender=2)).delivered()[:1])
    period = ["--from", instant_text(START - 3 * HOUR_MS), "--to", instant_text(START + 2 * HOUR_MS)]
    assert main(["explain", str(PHONE), "--lake", lake.root, *period]) == 1
    said = capsys.readouterr().out
    absent = ", ".join(hour_runs(hour_path(START + number * HOUR_MS) for number in (-2, 0, 1)))
    assert "0 envelopes concern it in this time." in said
    assert f"Of 3 of these hours the lake has nothing: {absent}." in said


def test_a_subscriptions_envelopes_are_those_that_were_observed_in_the_time(lake: SmallLake) -> None:
    before, last, after = Way(START - 1), Way(START + HOUR_MS - 1, 2), Way(START + HOUR_MS, 3)
    lake.commit(*before.delivered())
    lake.commit(*last.delivered(), *after.delivered(), at=START + HOUR_MS)
    answer = explain(Lookup(lake.root), ExplainRequest(PHONE, Period(START, START + HOUR_MS)))
    assert [one.receipt for one in answer.receipts] == [str(last.receipt)]
    assert founds(answer) == [["right"]]


def asked_for(lake: SmallLake, way: Way) -> list[str]:
    return ["explain", str(way.receipt), "--lake", lake.root, "--to", instant_text(START + DAY_MS)]


def test_an_answer_is_sure_where_all_went_right_in_hours_that_are_there(lake: SmallLake) -> None:
    way = Way()
    lake.commit(*way.delivered())
    lake.commit(subscribed(TABLET, OTHER), at=START + 4 * HOUR_MS)
    assert main(asked_for(lake, way)) == 0


def test_what_seems_to_be_missing_beside_a_lost_hour_is_not_sure(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its push may be in the hour that is lost, whether anything came after that or not."""
    way = Way(START + HOUR_MS - 1_000)
    lake.commit(way.observed(), way.envelope(), way.notification(), at=START)
    assert main(asked_for(lake, way)) == 3
    said = capsys.readouterr().out
    assert "This answer is not sure, for not all of the lake could be read:" in said
    assert f"1 hours are lost: {hour_path(START + HOUR_MS)}." in said


def lose_a_record(lake: SmallLake) -> str:
    update(lake.root, hour_path(START), lambda known: replace(known, counted=9))
    return "4 lines of {hour} have arrived, of 9 records at least"


def read_less(lake: SmallLake) -> str:
    unreadable = DataFile("unreadable/none", 2, 0, "")
    update(
        lake.root, hour_path(START), lambda known: replace(known, kinds={**known.kinds, "unreadable": (unreadable,)})
    )
    return "2 lines of {hour} can't be read"


def cut_a_file(lake: SmallLake) -> str:
    path = lake.stream(Way(number=9).observed(), at=START)
    target = Path(lake.root) / path
    target.write_bytes(target.read_bytes()[:-9])
    return f"{path} is damaged"


@pytest.mark.parametrize("damage", [lose_a_record, read_less, cut_a_file])
def test_beside_what_can_not_be_read_no_answer_is_sure_and_says_why(
    lake: SmallLake, damage: Callable[[SmallLake], str], capsys: pytest.CaptureFixture[str]
) -> None:
    way = Way()
    lake.commit(*way.delivered())
    why = damage(lake).format(hour=hour_path(START))
    assert main([*asked_for(lake, way), "--json"]) == 3
    assert any(doubt.startswith(why) for doubt in json.loads(capsys.readouterr().out)["doubts"])


def test_beside_a_lost_hour_no_answer_about_a_client_is_sure(lake: SmallLake) -> None:
    way = Way(START + HOUR_MS)
    lake.commit(*way.delivered())
    asked = ["explain", "--client", CLIENT.hex(), "--lake", lake.root, "--to", instant_text(START + DAY_MS)]
    assert main(asked) == 3
    lake.commit(subscribed(TABLET, OTHER, at=START))
    assert main(asked) == 0


@pytest.mark.parametrize(("age", "found"), [(20, "unexpected"), (31, "right")])
def test_what_is_queued_again_is_unexpected_as_long_as_a_snapshot_has_its_claim(
    lake: SmallLake, age: int, found: str
) -> None:
    way, first = Way(), START - age * DAY_MS
    snapshot(lake, "claims", first, {
        "envelope_id": way.envelope_id, "subscription_id": str(PHONE), "receipt": str(UUID(int=9)), "decision": "queued",
        "happened_at": first, "until": first + 30 * DAY_MS,
    })  # fmt: skip
    lake.commit(*way.delivered())
    for asked in (way.envelope_id, way.receipt, PHONE):
        assert founds(explained(lake, asked)) == [[found]]


def test_a_cooldown_of_hours_is_known(lake: SmallLake) -> None:
    at = START - 2 * HOUR_MS
    lake.commit(subscribed(at=at), ruled(Way().key, at=at))
    lake.commit(
        LimitsLoaded(
            network=STATEMENTS, at=at, count=1, window=60_000, cooldown=2 * HOUR_MS, cap=300, cap_window=60_000
        )
    )
    first, second, later = Way(START, 1), Way(START + 10_000, 2), Way(START + 90 * 60_000, 3)
    limited = NotificationDecision.RATE_LIMITED
    lake.commit(*first.delivered())
    for way in (second, later):
        lake.commit(way.observed(), way.envelope(), way.notification(limited))
    (notification,) = explained(lake, later.envelope_id).receipts[0].notifications
    assert notification.verdict.found == "right"
    assert "in a cooldown" in notification.verdict.reasons[0]


def test_a_limit_counts_what_it_let_pass_and_whose_line_is_lost(lake: SmallLake) -> None:
    at = START - 2 * HOUR_MS
    lake.commit(LimitsLoaded(network=STATEMENTS, at=at, count=1, window=60_000, cooldown=0, cap=300, cap_window=60_000))
    lost, limited, undecided = Way(START, 1), Way(START + 10_000, 2), Way(START + 20_000, 3)
    lake.commit(lost.observed(), lost.envelope())
    lake.commit(limited.observed(), limited.envelope(), limited.notification(NotificationDecision.RATE_LIMITED))
    lake.commit(undecided.observed(), undecided.envelope())
    assert founds(explained(lake, lost.envelope_id)) == [["missing"]]
    assert founds(explained(lake, limited.envelope_id)) == [["right"]]
    assert founds(explained(lake, undecided.envelope_id)) == [["right"]]
    of_phone = {one.receipt: one.notifications[0].verdict.found for one in explained(lake, PHONE).receipts}
    assert of_phone == {str(lost.receipt): "missing", str(limited.receipt): "right", str(undecided.receipt): "right"}


def test_a_receipt_that_was_never_decided_is_in_its_own_answer_though_another_of_its_envelope_was(
    lake: SmallLake,
) -> None:
    """Its message was lost; a minute later another receipt was wrongly decided as unmatched."""
    way = Way()
    again = Way(START + 60_000, 2, way.raw)
    lake.commit(way.observed(), again.observed(), again.envelope(EnvelopeDecision.UNMATCHED))
    answer = explained(lake, way.receipt)
    assert [one.receipt for one in answer.receipts] == [str(way.receipt), str(again.receipt)]
    assert founds(answer)[0] == ["missing"]


def test_a_drop_that_does_not_say_when_it_was_judged_is_judged_by_when_its_envelope_was(lake: SmallLake) -> None:
    """Three of a pair within a minute, and a fourth, decided 90 seconds later, and wrongly as not in scope."""
    ways = [Way(START + number * 1_000, number) for number in range(1, 5)]
    lake.commit(
        LimitsLoaded(
            network=STATEMENTS, at=START - HOUR_MS, count=3, window=60_000, cooldown=120_000, cap=300, cap_window=60_000
        )
    )
    for way in ways[:3]:
        lake.commit(*way.delivered())
    late = ways[3]
    observed, decided = late.observed(), late.envelope()
    late.at += 90_000
    dropped = late.notification(NotificationDecision.NOT_IN_SCOPE).model_copy(update={"judged_at": None})
    lake.commit(observed, decided, dropped)
    assert founds(explained(lake, late.receipt)) == [["right"]]


def test_what_was_given_up_as_stale_is_excused_by_another_receipt_that_was_pushed(lake: SmallLake) -> None:
    way = Way()
    again = Way(START + 60_000, 2, way.raw)
    lake.commit(way.observed(), way.envelope(), way.notification(), way.push(PushDecision.STALE))
    lake.commit(*again.delivered())
    assert founds(explained(lake, way.envelope_id)) == [["right"], ["unexpected"]]
