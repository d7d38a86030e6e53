"""What a subscriber was sent: read page by page, and marked as read."""

from collections.abc import Mapping
from typing import Any

import pytest

from clarion.networks.walletconnect.notifications import SentNotification, newest_first
from clarion.networks.walletconnect.projects import DappApp
from clarion.networks.walletconnect.read_marks import mark_read_through
from tests.walletconnect_worker.stage import APP, FIRST_TYPE, NOW, Phone, Stage, claims_of, opened

RESPONSE = "notify_get_notifications_response"


@pytest.fixture
def phone(stage: Stage) -> Phone:
    """Who was sent `one`, `two` and `three`, a second after each other."""
    phone = stage.subscribed()
    for name in ("one", "two", "three"):
        stage.clock.now += 1
        stage.handle(stage.notify(phone, given_id=name, title=name))
    return phone


def read(stage: Stage, phone: Phone, limit: int = 50, **claims: Any) -> Mapping[str, Any]:
    stage.clock.now += 1
    [answer] = stage.handle(phone.get(limit, **claims))
    return claims_of(answer, phone.sym_key, phone, RESPONSE)


def mark(stage: Stage, phone: Phone, *ids: str, **claims: Any) -> None:
    stage.clock.now += 1
    [answer] = stage.handle(phone.mark(*ids, **claims))
    claims_of(answer, phone.sym_key, phone, "notify_mark_notifications_as_read_response")


def titles(page: Mapping[str, Any]) -> list[str]:
    return [one["title"] for one in page["nfs"]]


def test_the_newest_comes_first(stage: Stage, phone: Phone) -> None:
    page = read(stage, phone)
    assert titles(page) == ["three", "two", "one"]
    assert (page["mre"], page["mur"]) == (False, False)


def test_a_notification_is_shown_as_it_was_sent(stage: Stage, phone: Phone) -> None:
    [shown] = read(stage, phone, limit=1)["nfs"]
    assert shown | {"id": ""} == {
        "id": "",
        "sent_at": (NOW + 3) * 1000,
        "type": FIRST_TYPE,
        "title": "three",
        "body": "Grüße ???>>>~~~",
        "icon": "",
        "url": "",
        "is_read": False,
    }


def test_a_page_goes_on_after_the_last(stage: Stage, phone: Phone) -> None:
    first = read(stage, phone, limit=2)
    assert (titles(first), first["mre"], first["mur"]) == (["three", "two"], True, True)
    second = read(stage, phone, limit=2, aft=first["nfs"][-1]["id"])
    assert (titles(second), second["mre"]) == (["one"], False)


def test_two_readings_of_one_second_are_both_answered(stage: Stage, phone: Phone) -> None:
    first, second = phone.get(50), phone.get(50)
    [before] = stage.handle(first)
    mark(stage, phone, all=True)
    [after] = stage.handle(second)
    pages = [claims_of(answer, phone.sym_key, phone, RESPONSE)["nfs"] for answer in (before, after)]
    assert [{one["is_read"] for one in page} for page in pages] == [{False}, {True}]


def test_nothing_comes_after_what_was_never_sent(stage: Stage, phone: Phone) -> None:
    assert titles(read(stage, phone, aft="6a2a6b1e-6f0d-4a5f-8f2a-0c6a2f2b8d11")) == []


def test_the_unread_come_first_if_the_wallet_says_so(stage: Stage, phone: Phone) -> None:
    mark(stage, phone, read(stage, phone)["nfs"][0]["id"])
    assert titles(read(stage, phone)) == ["three", "two", "one"]
    page = read(stage, phone, limit=2, urf=True)
    assert (titles(page), page["mre"], page["mur"]) == (["two", "one"], True, False)


def test_what_is_marked_is_read(stage: Stage, phone: Phone) -> None:
    newest, middle, _ = (one["id"] for one in read(stage, phone)["nfs"])
    mark(stage, phone, newest, middle, "unknown")
    assert [one["is_read"] for one in read(stage, phone)["nfs"]] == [True, True, False]


def test_all_are_marked_at_once(stage: Stage, phone: Phone) -> None:
    mark(stage, phone)
    assert [one["is_read"] for one in read(stage, phone)["nfs"]] == [True] * 3


def test_unread_ones_are_counted_in_the_subscription(stage: Stage, phone: Phone) -> None:
    mark(stage, phone, read(stage, phone)["nfs"][0]["id"])
    [answer] = stage.handle(phone.update(FIRST_TYPE))
    [listed] = claims_of(answer, phone.sym_key, phone, "notify_update_response")["sbs"]
    assert listed["unreadNotificationCount"] == 2


def test_the_unread_are_counted_of_the_newest_alone(stage: Stage, phone: Phone) -> None:
    """However many dapps have sent, a request reads so many rows of each subscription."""
    subscription_id = stage.row(phone).subscription_id
    [newest] = newest_first(subscription_id, NOW, 1)
    with SentNotification.batch_write() as batch:
        for later in range(1, 121):
            batch.save(SentNotification(**{**newest.attribute_values, "number": newest.number + later}))
    [answer] = stage.handle(phone.update(FIRST_TYPE))
    [listed] = claims_of(answer, phone.sym_key, phone, "notify_update_response")["sbs"]
    assert listed["unreadNotificationCount"] == 100


def test_what_the_dapp_marks_is_read(stage: Stage, phone: Phone) -> None:
    mark_read_through(APP, (NOW + 2) * 1000)
    assert DappApp.get(APP).read_through == (NOW + 2) * 1000
    assert [one["is_read"] for one in read(stage, phone)["nfs"]] == [False, True, True]


def test_what_is_older_than_a_month_is_gone(stage: Stage, phone: Phone) -> None:
    stage.clock.now += 30 * 86_400 - 3
    assert titles(read(stage, phone)) == ["three", "two"]


def test_nobody_reads_what_another_account_was_sent(stage: Stage, phone: Phone) -> None:
    """Not even who has the topic's key."""
    thief = stage.phone(b"t" * 32, sym_key=phone.sym_key)
    [refused] = stage.handle(thief.get())
    assert opened(refused, phone.sym_key)["error"]["message"] == "account_not_allowed"


def test_who_has_unsubscribed_reads_nothing(stage: Stage, phone: Phone) -> None:
    stage.handle(phone.delete())
    assert stage.handle(phone.get()) == []
