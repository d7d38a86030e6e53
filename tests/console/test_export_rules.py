"""All subscriptions with their rules in force, a line for each rule."""

import json
from typing import Any
from uuid import uuid4

import pytest

from clarion.networks import STATEMENTS
from clarion.networks.statements.rules import CALL, key_of
from clarion.tables import RuleRow, Subscription, rule_key
from console import export_rules
from tests.console.account import Account, Clarion

ALICE, BOB, CHAT, CALLS = b"a" * 32, b"b" * 32, b"t" * 32, b"u" * 32
TOKEN = "f00d" * 16


def subscribe(client: bytes, *rules: tuple[bytes, bytes], generation: int = 3, **changes: Any) -> str:
    name = str(uuid4())
    attributes: dict[str, Any] = {
        "channel": "fcm",
        "token": TOKEN,
        "status": "active",
        "rule_count": len(rules),
        "created_at": 1,
    }
    Subscription(
        name, client_id=client, network=STATEMENTS, generation=generation, updated_at=1, **(attributes | changes)
    ).save()
    for sender, topic in rules:
        allow(name, generation, sender, topic)
    return name


def allow(name: str, generation: int, sender: bytes, topic: bytes, condition: bytes | None = None) -> None:
    key = key_of(sender, topic)
    RuleRow(name, rule_key(generation, key), key=key, condition=condition).save()


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_rule_is_a_line_with_its_subscription(clarion: Clarion, account: Account) -> None:
    name = subscribe(BOB, (ALICE, CHAT), app="second", environment="sandbox")
    allow(name, 3, ALICE, CALLS, CALL)
    Subscription(name).update([Subscription.rule_count.set(2)])

    ended = clarion("export-rules")

    both = {"client_id": BOB.hex(), "subscription_id": name, "channel": "fcm", "status": "active"}
    both |= {"app": "second", "environment": "sandbox", "network": STATEMENTS}
    sender = {"sender": ALICE.hex()}
    chat = sender | {"topic": CHAT.hex()}
    calls = sender | {"topic": CALLS.hex(), "notify_type": "voip"}
    assert lines(ended.out) == [both | {"rule": chat}, both | {"rule": calls}]
    assert "1 subscriptions, 2 rules" in ended.err


def test_rules_of_a_dead_generation_are_left_out(clarion: Clarion, account: Account) -> None:
    name = subscribe(BOB, (ALICE, CHAT))
    allow(name, 2, ALICE, CALLS)
    allow(name, 4, ALICE, CALLS)

    assert [line["rule"]["topic"] for line in lines(clarion("export-rules").out)] == [CHAT.hex()]


def test_a_subscription_without_rules_is_a_line_too(clarion: Clarion, account: Account) -> None:
    name = subscribe(BOB, status="invalid")

    (line,) = lines(clarion("export-rules").out)

    assert (line["subscription_id"], line["status"]) == (name, "invalid")
    assert "rule" not in line


def test_one_clients_are_told_alone(clarion: Clarion, account: Account) -> None:
    subscribe(ALICE, (BOB, CHAT))
    mine = {subscribe(BOB, (ALICE, CHAT)), subscribe(BOB)}

    ended = clarion("export-rules", "--client", f"0x{BOB.hex()}")

    assert {line["subscription_id"] for line in lines(ended.out)} == mine


def test_rules_that_were_replaced_meanwhile_are_read_anew(account: Account) -> None:
    name = subscribe(BOB, (ALICE, CHAT))
    (before,) = Subscription.scan(attributes_to_get=export_rules.READ)
    RuleRow(name, rule_key(3, key_of(ALICE, CHAT))).delete()
    allow(name, 5, ALICE, CALLS)
    Subscription(name).update([Subscription.generation.set(5)])

    assert [line.rule and line.rule["topic"] for line in export_rules._lines(before)] == [CALLS.hex()]


def test_a_token_is_not_even_read(account: Account) -> None:
    subscribe(BOB)

    rows = [*Subscription.scan(attributes_to_get=export_rules.READ), *export_rules._of_client(BOB)]

    assert [row.client_id for row in rows] == [BOB, BOB]
    assert not any(row.token for row in rows)


@pytest.mark.parametrize("count", [450])
def test_many_subscriptions_are_all_told(clarion: Clarion, account: Account, count: int) -> None:
    with Subscription.batch_write() as batch:
        for number in range(count):
            row = Subscription(
                str(uuid4()), client_id=number.to_bytes(32), network=STATEMENTS, channel="apns", token=TOKEN
            )
            row.status, row.generation, row.rule_count, row.created_at, row.updated_at = "active", 0, 0, 1, 1
            batch.save(row)

    assert len(lines(clarion("export-rules", "--json").out)) == count
