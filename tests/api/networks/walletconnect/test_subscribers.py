"""Who has subscribed to a dapp, its domain, its welcome notification, its history, and the links in its notifications."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from api.networks.walletconnect import subscribers
from api.recent import Recent
from clarion.networks.walletconnect.buckets import LINK, SUBSCRIBERS_GET, WELCOME
from clarion.networks.walletconnect.domains import claim, move, public_keys
from clarion.networks.walletconnect.envelope import topic_of
from clarion.networks.walletconnect.notifications import NotificationKey, SentNotification, link_id
from clarion.networks.walletconnect.projects import Project, find_app, find_project
from clarion.networks.walletconnect.read_marks import is_read
from clarion.networks.walletconnect.subscriptions import NotifySubscriptionState, find_notify_subscription
from clarion.networks.walletconnect.topics import TopicKind, find_topic
from tests.dapps import OTHER_TYPE, TYPE, Dapp, DappReply, new_account

WELCOMING = {"enabled": True, "type": TYPE, "title": "Welcome", "body": "Glad that you came", "url": None}


@pytest.fixture
def sent(dapp: Dapp) -> Callable[..., SentNotification]:
    """A notification as it is kept. Arguments are columns of its row."""

    def make(**columns: Any) -> SentNotification:
        kept: dict[str, Any] = {"message": "{}", "spent": 1, "sent_at": dapp.clock.now}
        kept |= {"notification_id": str(uuid4()), "ttl": dapp.clock.seconds + 60}
        row = SentNotification(str(uuid4()), 1, **(kept | columns))
        row.save()
        return row

    return make


def follow(dapp: Dapp, row: SentNotification) -> DappReply:
    link = link_id(NotificationKey(row.subscription_id, int(row.number), row.notification_id))
    return dapp.send("GET", f"/v1/notification/{link}", authorization="")


def kept_for(dapp: Dapp, account: str) -> SentNotification:
    """The one that the account was sent."""
    row = find_notify_subscription(dapp.domain, account)
    assert row is not None
    [found] = SentNotification.query(row.subscription_id)
    return found


def test_all_subscribers_are_listed_as_their_wallets_spell_them(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    accounts = {dapp.subscriber() for _ in range(3)}
    dapp.subscriber(state=NotifySubscriptionState.DELETED.value)
    other = new_dapp()
    other.claim()
    other.subscriber()

    reply = dapp.send("GET", "/{project}/subscribers")

    assert (reply.status, set(reply.json), len(reply.json)) == (200, accounts, 3)
    assert "Link" not in reply.headers


def test_more_subscribers_than_fit_into_an_answer_are_listed_in_several(
    dapp: Dapp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has left is read as well, and listed in none."""
    monkeypatch.setattr(subscribers, "MOST_READ", 2)
    accounts = {dapp.subscriber() for _ in range(5)}
    for _ in range(3):
        dapp.subscriber(state=NotifySubscriptionState.DELETED.value)

    listed, path = list[str](), "/{project}/subscribers"
    while path:
        reply = dapp.send("GET", path)
        assert len(reply.json) <= 2
        listed += reply.json
        path = reply.headers.get("Link", "").removesuffix('>; rel="next"').removeprefix("<")

    assert (len(listed), set(listed)) == (5, accounts)


def test_subscribers_are_listed_five_times_and_then_once_a_second(dapp: Dapp) -> None:
    statuses = [dapp.send("GET", "/{project}/subscribers").status for _ in range(SUBSCRIBERS_GET.most + 1)]
    assert statuses == [200] * SUBSCRIBERS_GET.most + [429]


def test_some_subscribers_are_shown_with_what_they_take(dapp: Dapp) -> None:
    one, other = dapp.subscriber(), dapp.subscriber(scope={TYPE, OTHER_TYPE})
    of_nothing, gone = dapp.subscriber(scope=None), dapp.subscriber(state=NotifySubscriptionState.DELETED.value)

    asked = {"accounts": [one, other, of_nothing, gone, new_account()]}
    reply = dapp.send("POST", "/v1/{project}/subscribers", asked)

    types = {one: [TYPE], other: sorted([TYPE, OTHER_TYPE]), of_nothing: []}
    assert reply.json == {account: {"notification_types": listed} for account, listed in types.items()}


@pytest.mark.parametrize("after", ["", "e" * 2_000])
def test_nothing_comes_after_no_account(dapp: Dapp, after: str) -> None:
    """A table has no key of more than 1,024 bytes."""
    reply = dapp.send("GET", f"/{{project}}/subscribers?after={after}")
    assert (reply.status, reply.reason) == (422, "after: names no account")


@pytest.mark.parametrize("count", [0, 101])
def test_1_to_100_subscribers_are_shown_at_once(dapp: Dapp, count: int) -> None:
    asked = {"accounts": [new_account() for _ in range(count)]}
    assert dapp.send("POST", "/v1/{project}/subscribers", asked).status == 422


def test_a_claimed_domain_gets_keys_that_stay(dapp: Dapp) -> None:
    reply, again = dapp.claim(), dapp.claim()

    assert reply.json == again.json
    app = find_app(dapp.domain)
    assert app is not None
    keys = public_keys(app)
    assert reply.json == {"authenticationKey": keys.authentication.hex(), "subscribeKey": keys.subscribe.hex()}


def test_requests_to_a_claimed_domain_are_followed(dapp: Dapp) -> None:
    topic = find_topic(topic_of(bytes.fromhex(dapp.claim().json["subscribeKey"])))
    assert topic is not None
    assert (topic.kind, topic.ref) == (TopicKind.APP, dapp.domain)


def test_a_domain_is_one_projects(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    other = new_dapp()
    reply = other.claim(dapp.domain)
    assert (reply.status, reply.reason) == (409, "another project has this domain")
    project = find_project(other.project_id)
    assert project is not None
    assert project.app is None


def test_a_project_claims_one_domain(dapp: Dapp) -> None:
    reply = dapp.claim(f"new.{dapp.domain}")
    assert (reply.status, reply.reason) == (
        409,
        "the project has another domain: its operator can give it this one",
    )
    assert find_app(f"new.{dapp.domain}") is None


def given(dapp: Dapp, domain: str) -> None:
    """By the operator, to a project that is read anew."""
    project = find_project(dapp.project_id)
    assert project is not None
    assert claim(dapp.worker.connection, project, domain, dapp.clock.now) is not None
    dapp.worker = replace(dapp.worker, projects=Recent(find_project))


def test_a_project_may_be_given_another_domain_and_the_first_one_back(dapp: Dapp) -> None:
    account = dapp.subscriber()
    before = dapp.claim().json
    given(dapp, f"new.{dapp.domain}")
    assert dapp.notify(account).json["not_found"] == [account]

    given(dapp, dapp.domain)
    assert dapp.claim().json == before
    assert dapp.notify(account).json["sent"] == [account]


def moved(dapp: Dapp, other: Dapp, owner: Project | None) -> bool:
    """Whether the operator, who has read `owner`, has moved the dapp's domain."""
    app, project = find_app(dapp.domain), find_project(other.project_id)
    assert app is not None
    assert project is not None
    return move(dapp.worker.connection, app, owner, project)


def test_a_domain_that_was_moved_away_is_no_longer_listed_or_marked(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    """However the project's row was read before."""
    account = dapp.subscriber()
    assert dapp.send("GET", "/{project}/subscribers").json == [account]
    assert moved(dapp, new_dapp(), find_project(dapp.project_id))
    for reply in (
        dapp.send("GET", "/{project}/subscribers"),
        dapp.send("POST", "/v1/{project}/subscribers", {"accounts": [account]}),
        dapp.send("GET", "/v1/{project}/mark-all-as-read"),
    ):
        assert (reply.status, reply.reason) == (409, "another project has this domain")


def test_a_domain_that_is_claimed_anew_meanwhile_is_not_moved(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    """The owner's row would keep it."""
    Project(dapp.project_id).update([Project.app.remove()])
    owner, other = find_project(dapp.project_id), new_dapp()
    dapp.worker = replace(dapp.worker, projects=Recent(find_project))
    assert dapp.claim().status == 200
    assert not moved(dapp, other, owner)
    app = find_app(dapp.domain)
    assert app is not None
    assert app.project_id == dapp.project_id


def test_an_owner_that_has_gone_to_another_domain_keeps_that_one(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    given(dapp, f"new.{dapp.domain}")
    assert moved(dapp, new_dapp(), find_project(dapp.project_id))
    owner = find_project(dapp.project_id)
    assert owner is not None
    assert owner.app == f"new.{dapp.domain}"


@pytest.mark.parametrize("domain", ["", "https://a.example", "a.example/", "A.example", "a example", "a:1", "a" * 254])
def test_what_is_no_domain_is_refused(dapp: Dapp, domain: str) -> None:
    reply = dapp.send("POST", "/{project}/subscribe-topic", {"appDomain": domain})
    assert reply.status == 422
    assert reply.reason.startswith("appDomain: ")


def test_a_welcome_notification_is_shown_as_it_was_set(dapp: Dapp) -> None:
    assert dapp.send("GET", "/v0/{project}/welcome-notification").json is None

    reply = dapp.send("POST", "/v0/{project}/welcome-notification", WELCOMING)

    assert (reply.status, reply.text) == (204, "")
    assert dapp.send("GET", "/v0/{project}/welcome-notification").json == WELCOMING


@pytest.mark.parametrize(
    "changes", [{"title": "t" * 65}, {"body": ""}, {"type": "x"}, {"url": "http://app.example.org"}]
)
def test_a_welcome_notification_keeps_to_the_rules_of_any(dapp: Dapp, changes: dict[str, str]) -> None:
    assert dapp.send("POST", "/v0/{project}/welcome-notification", WELCOMING | changes).status == 422
    assert dapp.send("GET", "/v0/{project}/welcome-notification").json is None


def test_a_welcome_notification_is_set_100_times_and_then_once_a_minute(dapp: Dapp) -> None:
    path = "/v0/{project}/welcome-notification"
    assert {dapp.send("GET", path).status for _ in range(WELCOME.most)} == {200}
    assert [dapp.send("GET", path).status, dapp.send("POST", path, WELCOMING).status] == [429, 429]
    dapp.clock.pass_seconds(60)
    assert [dapp.send("GET", path).status for _ in range(2)] == [200, 429]


def test_all_that_was_sent_until_now_is_marked_as_read(dapp: Dapp, sent: Callable[..., SentNotification]) -> None:
    before = sent()
    dapp.clock.pass_seconds(1)
    reply = dapp.send("GET", "/v1/{project}/mark-all-as-read")
    dapp.clock.pass_seconds(1)
    after, marked = sent(), sent(is_read=True)

    app = find_app(dapp.domain)
    assert app is not None
    assert (reply.status, reply.text) == (204, "")
    assert [is_read(row, app) for row in (before, after, marked)] == [True, False, True]


def test_who_is_sent_an_earlier_notification_after_all_were_marked_has_not_read_it(dapp: Dapp) -> None:
    first, later = dapp.subscriber(), dapp.subscriber()
    dapp.notify(first, notification_id="once")
    dapp.clock.pass_seconds(1)
    dapp.send("GET", "/v1/{project}/mark-all-as-read")
    dapp.clock.pass_seconds(1)
    dapp.notify(first, later, notification_id="once")

    app = find_app(dapp.domain)
    assert app is not None
    assert [is_read(kept_for(dapp, account), app) for account in (first, later)] == [True, False]


def test_nothing_is_read_before_anything_was_marked(dapp: Dapp, sent: Callable[..., SentNotification]) -> None:
    app = find_app(dapp.domain)
    assert app is not None
    assert not is_read(sent(), app)


def test_a_link_leads_to_where_its_dapp_said(dapp: Dapp, sent: Callable[..., SentNotification]) -> None:
    reply = follow(dapp, sent(url="https://dapp.example.org/a%20b?c=d&e=✓#f"))
    assert reply.status == 307
    assert reply.headers["Location"] == "https://dapp.example.org/a%20b?c=d&e=%E2%9C%93#f"


def test_a_link_adds_no_header(dapp: Dapp, sent: Callable[..., SentNotification]) -> None:
    reply = follow(dapp, sent(url="https://dapp.example.org/\r\nSet-Cookie: a=b"))
    assert not {"\r", "\n", " "} & set(reply.headers["Location"])


@pytest.mark.parametrize("columns", [{}, {"url": "https://dapp.example.org", "ttl": 1}])
def test_a_link_to_nothing_is_not_found(
    dapp: Dapp, sent: Callable[..., SentNotification], columns: dict[str, Any]
) -> None:
    reply = follow(dapp, sent(**columns))
    assert (reply.status, reply.reason) == (404, "that link was not found")


@pytest.mark.parametrize("link", ["x", "A" * 43, "A" * 48, "A" * 47 + "_", "-"])
def test_what_is_no_link_is_not_found(dapp: Dapp, link: str) -> None:
    assert dapp.send("GET", f"/v1/notification/{link}").status == 404


def test_a_link_is_followed_20_times_and_then_twice_a_second(dapp: Dapp, sent: Callable[..., SentNotification]) -> None:
    row = sent(url="https://dapp.example.org")
    assert {follow(dapp, row).status for _ in range(LINK.most)} == {307}
    assert follow(dapp, row).status == 429
    dapp.clock.pass_seconds(1)
    assert [follow(dapp, row).status for _ in range(3)] == [307, 307, 429]
