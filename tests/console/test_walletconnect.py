"""The projects of dapps and the Notify server's keys, as an operator keeps them."""

import json
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from clarion.networks.walletconnect.domains import public_keys
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.projects import DappApp, Project, find_app, find_project, has_secret
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.topics import TopicKind, ended_since, find_topic
from console.faults import Exit
from console.walletconnect import notification_types
from tests.console.account import PREFIX, Account, Clarion

ID, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2
SECRET_HASH = sha256(b"its secret").digest()
DOMAIN = "app.example.org"

pytestmark = pytest.mark.usefixtures("walletconnect")


@pytest.fixture
def walletconnect(account: Account) -> None:
    """It is served; its keys are yet to be made."""
    account.serve_walletconnect()


@pytest.fixture
def added(walletconnect: None, clarion: Clarion) -> Any:
    """Two projects, and what the command showed of the first."""

    def add(project_id: str) -> Any:
        return json.loads(clarion("walletconnect", "project", "add", "Dapp", "--id", project_id, "--json").out)

    add(OTHER)
    return add(ID)


def project(project_id: str = ID) -> Project:
    row = find_project(project_id)
    assert row is not None
    return row


def domain_of(project_id: str) -> str | None:
    return project(project_id).app


def app() -> DappApp:
    row = find_app(DOMAIN)
    assert row is not None
    return row


def stored() -> str:
    return boto3.client("secretsmanager").get_secret_value(SecretId=f"{PREFIX}{SERVER_SECRET}")["SecretString"]


def test_a_new_project_has_an_id_and_a_secret_that_is_shown_once(clarion: Clarion) -> None:
    ended = clarion("walletconnect", "project", "add", "Dapp", "--json")

    made = json.loads(ended.out)
    row = project(made["project"]["project_id"])
    assert ended.code == Exit.WELL
    assert has_secret(row, made["secret"])
    assert (len(row.project_id), row.name, row.state) == (32, "Dapp", "active")
    assert domain_of(row.project_id) is None
    assert made["secret"] not in clarion("walletconnect", "project", "list", "--json").out


def test_a_project_may_come_with_its_id_and_its_secret(clarion: Clarion) -> None:
    words = ("walletconnect", "project", "add", "Dapp", "--id", ID, "--secret-hash", SECRET_HASH.hex())
    ended = clarion(*words)

    assert f"Project {ID} (Dapp) is active at prod." in ended.out
    assert "secret" not in ended.out
    assert has_secret(project(), "its secret")
    assert clarion(*words).code == Exit.USAGE


def test_a_rotated_secret_replaces_the_old_one(clarion: Clarion, added: Any) -> None:
    made = json.loads(clarion("walletconnect", "project", "rotate-secret", ID, "--yes", "--json").out)

    assert has_secret(project(), made["secret"])
    assert not has_secret(project(), added["secret"])


@pytest.mark.usefixtures("added")
def test_a_deactivated_project_is_refused_until_it_is_activated(clarion: Clarion) -> None:
    for change, state in (("deactivate", "deactivated"), ("activate", "active")):
        assert clarion("walletconnect", "project", change, ID, typed="y\n").code == Exit.WELL
        assert project().state == state


@pytest.mark.usefixtures("added")
def test_a_domain_gets_keys_which_are_shown_without_their_private_halves(clarion: Clarion) -> None:
    ended = clarion("walletconnect", "project", "domain", ID, DOMAIN)

    keys = public_keys(app())
    assert all(key.hex() in ended.out for key in keys)
    assert not any(key.hex() in ended.out for key in (app().subscribe_key, app().authentication_key))
    assert (project().app, app().project_id) == (DOMAIN, ID)


@pytest.mark.usefixtures("added")
def test_a_domain_moves_with_its_keys_only_when_that_is_confirmed(clarion: Clarion) -> None:
    clarion("walletconnect", "project", "domain", ID, DOMAIN)
    keys = public_keys(app())

    assert clarion("walletconnect", "project", "domain", OTHER, DOMAIN, typed="n\n").code == Exit.USAGE
    assert [domain_of(ID), domain_of(OTHER), app().project_id] == [DOMAIN, None, ID]

    assert clarion("walletconnect", "project", "domain", OTHER, DOMAIN, "--yes").code == Exit.WELL
    assert [domain_of(ID), domain_of(OTHER), app().project_id] == [None, DOMAIN, OTHER]
    assert public_keys(app()) == keys


@pytest.mark.usefixtures("added")
def test_types_are_added_changed_and_removed(clarion: Clarion) -> None:
    words = ("--name", "News", "--description", "What is new")
    made = json.loads(clarion("walletconnect", "project", "type", ID, *words, "--json").out)["type_id"]
    assert project().types == {made: {"name": "News", "description": "What is new", "image_url": ""}}

    clarion("walletconnect", "project", "type", ID, "--id", made, "--description", "The latest")
    assert project().types == {made: {"name": "News", "description": "The latest", "image_url": ""}}

    clarion("walletconnect", "project", "remove-type", ID, made, "--yes")
    assert project().types == {}


@pytest.mark.usefixtures("added")
def test_a_type_may_come_with_its_id(clarion: Clarion) -> None:
    chosen = uuid4()
    ended = clarion("walletconnect", "project", "type", ID, "--id", str(chosen), "--name", "News")
    assert f"Type {chosen} is one of project {ID}." in ended.out
    assert [UUID(each) for each in project().types] == [chosen]


@pytest.mark.usefixtures("added")
def test_of_two_changes_of_types_at_once_the_second_is_refused(
    clarion: Clarion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other operator changes them while this one is being asked."""
    made = json.loads(clarion("walletconnect", "project", "type", ID, "--name", "News", "--json").out)["type_id"]

    def change_first(*_: object, **__: object) -> None:
        clarion("walletconnect", "project", "type", ID, "--name", "Offers")

    monkeypatch.setattr(notification_types, "confirm", change_first)
    ended = clarion("walletconnect", "project", "remove-type", ID, made)

    assert (ended.code, "somebody else" in ended.err) == (Exit.TROUBLE, True)
    assert {each["name"] for each in project().types.values()} == {"News", "Offers"}


@pytest.mark.usefixtures("added")
def test_projects_are_listed_with_domains_and_types(clarion: Clarion) -> None:
    clarion("walletconnect", "project", "domain", ID, DOMAIN)
    clarion("walletconnect", "project", "type", ID, "--name", "News")

    listed = json.loads(clarion("walletconnect", "project", "list", "--json").out)["projects"]

    assert [(one["project_id"], one["app"], [*one["types"].values()]) for one in listed] == [
        (ID, DOMAIN, ["News"]),
        (OTHER, None, []),
    ]
    shown = clarion("walletconnect", "project", "list").out
    assert DOMAIN in shown
    assert project().secret_hash.hex() not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("rotate-secret", ID, "--yes"),
        ("deactivate", ID, "--yes"),
        ("domain", ID, DOMAIN),
        ("type", ID, "--name", "News"),
        ("remove-type", ID, str(uuid4()), "--yes"),
        ("add", "Dapp", "--id", ID.upper()),
    ],
)
def test_what_is_not_there_is_not_changed(clarion: Clarion, words: tuple[str, ...]) -> None:
    assert clarion("walletconnect", "project", *words).code == Exit.USAGE
    assert (find_project(ID), find_app(DOMAIN)) == (None, None)


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    "words",
    [
        ("domain", ID, "https://app.example.org"),
        ("domain", ID, "App.example.org"),
        ("type", ID),
        ("remove-type", ID, str(uuid4()), "--yes"),
        ("rotate-secret", ID),
        ("deactivate", ID),
    ],
)
def test_what_is_flawed_or_unconfirmed_changes_nothing(clarion: Clarion, words: tuple[str, ...]) -> None:
    before = project().attribute_values
    assert clarion("walletconnect", "project", *words).code == Exit.USAGE
    assert project().attribute_values == before


def test_the_servers_keys_are_made_once_and_their_topic_is_followed(clarion: Clarion) -> None:
    ended = clarion("walletconnect", "create-keys", "--yes")

    text = stored()
    keys = ServerKeys.model_validate_json(text)
    topic = find_topic(keys.watch_topic)
    assert keys.watch_topic in ended.out
    assert not any(key in ended.out for key in keys.model_dump().values())
    assert topic is not None
    assert topic.kind == TopicKind.SERVER

    topic.delete()
    assert "has its keys already" in clarion("walletconnect", "create-keys").out
    assert (stored(), find_topic(keys.watch_topic) is None) == (text, False)


def test_rotated_keys_have_a_topic_of_their_own_and_the_former_one_ends(clarion: Clarion) -> None:
    clarion("walletconnect", "create-keys", "--yes")
    former = ServerKeys.model_validate_json(stored())

    ended = clarion("walletconnect", "rotate-keys", "--yes")

    keys = ServerKeys.model_validate_json(stored())
    assert keys.watch_topic in ended.out
    assert (find_topic(former.watch_topic), find_topic(keys.watch_topic) is None) == (None, False)
    assert [*ended_since()] == [former.watch_topic]


def test_a_rotation_that_was_interrupted_is_completed_by_create_keys(clarion: Clarion) -> None:
    """Once the secret was written."""
    clarion("walletconnect", "create-keys", "--yes")
    former, keys = ServerKeys.model_validate_json(stored()), ServerKeys.generate()
    secrets = boto3.client("secretsmanager")
    secrets.put_secret_value(SecretId=f"{PREFIX}{SERVER_SECRET}", SecretString=keys.text)

    assert "has its keys already" in clarion("walletconnect", "create-keys").out
    assert (find_topic(former.watch_topic), find_topic(keys.watch_topic) is None) == (None, False)


@pytest.mark.parametrize("command", ["create-keys", "rotate-keys"])
def test_no_keys_are_made_unconfirmed(clarion: Clarion, command: str) -> None:
    before = stored()
    assert clarion("walletconnect", command, typed="n\n").code == Exit.USAGE
    assert stored() == before


def test_a_deployment_that_does_not_serve_it_says_so(clarion: Clarion) -> None:
    Project.delete_table()
    ended = clarion("walletconnect", "project", "list")
    assert (ended.code, "does not serve WalletConnect" in ended.err) == (Exit.TROUBLE, True)
