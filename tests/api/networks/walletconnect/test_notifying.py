"""`notify`: what each account is answered, and what is queued for whom."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from api.networks.walletconnect import notify
from api.networks.walletconnect.notify import ID_SECONDS, MOST_NOTIFICATIONS
from clarion.networks.walletconnect.buckets import NOTIFY_OF_PROJECT, NOTIFY_OF_SUBSCRIBER
from clarion.networks.walletconnect.commands import ACCOUNTS, NotifyCommand
from clarion.networks.walletconnect.domains import move
from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.projects import find_app, find_project
from clarion.networks.walletconnect.subscriptions import NotifySubscriptionState, find_notify_subscription
from tests.dapps import OTHER_TYPE, TYPE, Dapp, DappReply, new_account

type Queued = Callable[[], list[NotifyCommand]]

HOUR = 3_600


def accounts_of(commands: list[NotifyCommand]) -> list[str]:
    return [each.account for command in commands for each in command.accounts]


def outcome(reply: DappReply) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    assert reply.status == 200, reply.text
    failed = [(each["account"], each["reason"]) for each in reply.json["failed"]]
    return reply.json["sent"], failed, reply.json["not_found"]


def test_a_subscriber_is_sent_what_its_scope_has(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()

    reply = dapp.notify(account, title="Grüße ✓", url="https://dapp.example.org/new")

    assert outcome(reply) == ([account], [], [])
    [command] = queued()
    row = find_notify_subscription(dapp.domain, account)
    assert row is not None
    assert (command.project_id, command.app, command.issued_at) == (dapp.project_id, dapp.domain, dapp.clock.now)
    assert [(each.account, each.subscription_id) for each in command.accounts] == [(account, row.subscription_id)]
    assert command.notification.model_dump() == {
        "id": command.notification.id,
        "type": TYPE,
        "title": "Grüße ✓",
        "body": "World",
        "icon": None,
        "url": "https://dapp.example.org/new",
    }
    assert UUID(command.notification.id)


def test_each_account_is_answered_for_itself(dapp: Dapp, queued: Queued, capsys: pytest.CaptureFixture[str]) -> None:
    taking, unknown = dapp.subscriber(), new_account()
    of_other_type, of_none = dapp.subscriber(scope={OTHER_TYPE}), dapp.subscriber(scope=None)
    gone = dapp.subscriber(state=NotifySubscriptionState.DELETED.value)

    reply = dapp.notify(taking, of_other_type, unknown, gone, of_none, taking)

    not_in_scope = [(account, "not subscribed to type") for account in (of_other_type, of_none)]
    assert outcome(reply) == ([taking], not_in_scope, [unknown, gone])
    assert accounts_of(queued()) == [taking]
    assert '"notification_not_in_scope":[2.0]' in capsys.readouterr().out.replace(" ", "")


def test_another_dapps_subscriber_is_not_found(new_dapp: Callable[..., Dapp], dapp: Dapp) -> None:
    other = new_dapp()
    other.claim()
    account = other.subscriber()
    assert outcome(dapp.notify(account)) == ([], [], [account])


def test_what_is_for_many_is_split(dapp: Dapp, queued: Queued) -> None:
    accounts = [dapp.subscriber() for _ in range(2 * ACCOUNTS + 1)]

    assert outcome(dapp.notify(*accounts)) == (accounts, [], [])

    commands = queued()
    assert sorted(len(command.accounts) for command in commands) == [1, ACCOUNTS, ACCOUNTS]
    assert sorted(accounts_of(commands)) == sorted(accounts)
    assert len({command.notification.id for command in commands}) == 1


def test_several_notifications_are_answered_together(dapp: Dapp, queued: Queued) -> None:
    one, other, unknown = dapp.subscriber(), dapp.subscriber(scope={OTHER_TYPE}), new_account()
    asked = [
        {"notification": dapp.notification(), "accounts": [one, other, unknown]},
        {"notification": dapp.notification(type=OTHER_TYPE, title="Another"), "accounts": [one, other]},
    ]

    reply = dapp.send("POST", "/v1/{project}/notify", asked)

    reason = "not subscribed to type"
    assert outcome(reply) == ([one, other], [(other, reason), (one, reason)], [unknown])
    assert {(each.notification.title, *accounts_of([each])) for each in queued()} == {
        ("Hello", one),
        ("Another", other),
    }


def test_a_list_of_nothing_but_faults_is_read_up_to_the_first() -> None:
    """A body has room for 250,000 of them, which took 250 MB."""
    with pytest.raises(ValidationError) as raised:
        notify._EACH.validate_json(b"[0, 0, 0]")
    assert raised.value.error_count() == 1


def test_at_most_500_notifications_are_taken_at_once(dapp: Dapp) -> None:
    """Unknown accounts count like any other."""
    asked = {"notification": dapp.notification(), "accounts": [new_account()] * (MOST_NOTIFICATIONS // 2)}
    assert dapp.send("POST", "/v1/{project}/notify", [asked, asked]).status == 200

    reply = dapp.send("POST", "/v1/{project}/notify", [asked, asked, asked | {"accounts": [new_account()]}])

    assert (reply.status, reply.reason) == (422, "Too many notifications: 501 > 500")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"type": "news"}, "notification.type"),
        ({"title": ""}, "notification.title"),
        ({"title": "t" * 65}, "notification.title"),
        ({"body": ""}, "notification.body"),
        ({"body": "b" * 256}, "notification.body"),
        ({"icon": ""}, "notification.icon"),
        ({"icon": "i" * 256}, "notification.icon"),
        ({"url": "https://app.example.org/" + "u" * 255}, "notification.url"),
        ({"url": "http://app.example.org"}, "notification.url"),
        ({"url": "javascript:alert(1)"}, "notification.url"),
        ({"url": "//app.example.org"}, "notification.url"),
        ({"url": "https:///path"}, "notification.url"),
        ({"url": "https://[app"}, "notification.url"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(dapp: Dapp, changes: dict[str, str], place: str) -> None:
    reply = dapp.notify(**changes)
    assert reply.status == 422
    assert reply.reason.startswith(f"{place}: ")


def test_a_notification_for_nobody_is_refused(dapp: Dapp) -> None:
    """Its id would be kept for a week, and count as none."""
    asked = {"notification": dapp.notification(), "notification_id": "launch", "accounts": []}
    reply = dapp.send("POST", "/v1/{project}/notify", [asked] * (MOST_NOTIFICATIONS + 1))
    assert reply.status == 422
    assert reply.reason.startswith("[0].accounts: ")


def test_lengths_count_characters(dapp: Dapp) -> None:
    longest = {"title": "\N{PARTY POPPER}" * 64, "body": "\N{PARTY POPPER}" * 255}
    assert dapp.notify(dapp.subscriber(), **longest).status == 200


@pytest.mark.parametrize(
    "account",
    [
        "0x931ECeAcDaEE71B80b891a7967d7674e0871fCCc",
        "eip155:1:0x931eceacdaee71b80b891a7967d7674e0871fccc",
        "eip155:01:0x931ECeAcDaEE71B80b891a7967d7674e0871fCCc",
        "cosmos:cosmoshub-3:cosmos1t2uflqwqe0fsj0shcfkrvpukewcw40yjj6hdc0",
        "",
    ],
)
def test_an_account_is_one_of_ethereum_with_its_checksum(dapp: Dapp, account: str) -> None:
    reply = dapp.notify(new_account(), account)
    assert reply.status == 422
    assert reply.reason.startswith("accounts[1]: ")


def test_a_project_without_a_domain_has_nobody_to_notify(new_dapp: Callable[..., Dapp]) -> None:
    reply = new_dapp().notify(new_account())
    assert reply.status == 422
    assert "subscribe-topic" in reply.reason


def test_a_project_notifies_in_bursts_and_then_twice_a_second(dapp: Dapp) -> None:
    assert all(dapp.notify(new_account()).status == 200 for _ in range(NOTIFY_OF_PROJECT.most))
    refused = dapp.notify(new_account())
    assert (refused.status, refused.reason, refused.headers["Retry-After"]) == (429, "rate limit exceeded", "1")

    dapp.clock.pass_seconds(1)
    assert [dapp.notify(new_account()).status for _ in range(3)] == [200, 200, 429]


def test_a_subscriber_has_50_and_then_two_an_hour(dapp: Dapp, queued: Queued) -> None:
    account, other = dapp.subscriber(), dapp.subscriber()
    for _ in range(NOTIFY_OF_SUBSCRIBER.most):
        dapp.clock.pass_seconds(1)
        assert outcome(dapp.notify(account))[0] == [account]
    queued()

    reply = dapp.notify(account, other)

    assert outcome(reply) == ([other], [(account, "rate limit exceeded")], [])
    assert accounts_of(queued()) == [other]
    dapp.clock.pass_seconds(HOUR)
    found = [outcome(dapp.notify(account))[0] for _ in range(3)]
    assert found == [[account], [account], []]


def test_what_is_asked_again_is_queued_as_it_was_the_first_time(dapp: Dapp, queued: Queued) -> None:
    """Whatever follows from a command is the same, so that it may be carried out twice."""
    account = dapp.subscriber()
    dapp.notify(account, notification_id="launch")
    first = queued()

    dapp.clock.pass_seconds(60)

    assert outcome(dapp.notify(account, notification_id="launch")) == ([account], [], [])
    assert queued() == first
    assert first[0].notification.id == "launch"


def test_who_has_a_notification_takes_no_token_for_it(dapp: Dapp) -> None:
    account, later = dapp.subscriber(), dapp.subscriber()
    dapp.notify(account, notification_id="launch")
    for _ in range(NOTIFY_OF_SUBSCRIBER.most - 1):
        dapp.clock.pass_seconds(1)
        assert outcome(dapp.notify(account))[0] == [account]

    assert outcome(dapp.notify(account, later, notification_id="launch")) == ([account, later], [], [])
    assert outcome(dapp.notify(account)) == ([], [(account, "rate limit exceeded")], [])


def test_a_notification_is_kept_before_it_is_queued(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    for name in ("one", "two"):
        dapp.notify(account, notification_id=name, title=name, url="https://dapp.example.org/new")
    [one, two] = [command.accounts[0] for command in sorted(queued(), key=lambda each: each.notification.id)]
    rows = list(SentNotification.query(one.subscription_id))
    assert [row.number for row in rows] == [one.number, two.number] == [1, 2]
    assert [row.content["title"] for row in rows] == ["one", "two"]
    assert {row.url for row in rows} == {"https://dapp.example.org/new"}


def test_an_account_may_be_named_by_several_notifications_of_a_request(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    asked = [
        {"notification": dapp.notification(title=title), "notification_id": title, "accounts": [account]}
        for title in ("one", "two", "one")
    ]
    assert outcome(dapp.send("POST", "/v1/{project}/notify", asked)) == ([account], [], [])
    assert sorted((command.notification.id, command.accounts[0].number) for command in queued()) == [
        ("one", 1),
        ("one", 1),
        ("two", 2),
    ]


def test_nothing_is_kept_for_a_project_whose_domain_was_moved_away(
    dapp: Dapp, new_dapp: Callable[..., Dapp], queued: Queued
) -> None:
    """Its router may remember the project as it was."""
    account = dapp.subscriber()
    assert outcome(dapp.notify(account))[0] == [account]
    [before] = queued()
    other, app = find_project(new_dapp().project_id), find_app(dapp.domain)
    assert other is not None
    assert app is not None
    assert move(dapp.worker.connection, app, find_project(dapp.project_id), other)

    assert dapp.notify(account).status == 409
    assert len(list(SentNotification.query(before.accounts[0].subscription_id))) == 1


def test_an_id_names_one_notification(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    dapp.notify(account, notification_id="launch")
    queued()

    reply = dapp.notify(account, notification_id="launch", title="Another")

    assert reply.status == 409
    assert "notification_id" in reply.reason
    assert queued() == []


def test_an_id_is_its_projects_own(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    other = new_dapp()
    other.claim()
    assert dapp.notify(dapp.subscriber(), notification_id="launch").status == 200
    assert other.notify(other.subscriber(), notification_id="launch", title="Another").status == 200


def test_both_spellings_of_the_id_are_taken(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    asked = {"notificationId": "launch", "notification": dapp.notification(), "accounts": [account]}
    dapp.send("POST", "/v1/{project}/notify", [asked])
    assert [command.notification.id for command in queued()] == ["launch"]


def test_without_an_id_each_request_is_another_notification(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    for _ in range(2):
        dapp.notify(account)
    assert len({command.notification.id for command in queued()}) == 2


def test_what_the_queue_does_not_take_is_asked_again(dapp: Dapp, queued: Queued) -> None:
    account = dapp.subscriber()
    at_work = dapp.worker
    nowhere = at_work.settings.model_copy(update={"command_queue_url": f"https://sqs.invalid/1/{uuid4()}"})
    dapp.worker = replace(at_work, settings=nowhere)
    refused = dapp.notify(account, notification_id="launch")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")

    dapp.worker = at_work
    assert outcome(dapp.notify(account, notification_id="launch")) == ([account], [], [])
    assert accounts_of(queued()) == [account]


def test_an_id_is_remembered_until_nobody_repeats_it(dapp: Dapp) -> None:
    """The messages that it was sent in are good for longer, or a repetition would be sent expired."""
    assert 0 < ID_SECONDS + 2 * 86_400 < 30 * 86_400
