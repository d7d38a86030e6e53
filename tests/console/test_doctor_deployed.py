"""What the doctor finds of a deployment that CloudFormation has made, and that does not work yet."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import boto3
import pytest
from moto.sns.models import sns_backends

from clarion.decisions import Environment
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.providers import apns
from clarion.settings import EMULATED_STAGE
from console import send_test
from console.deployment import Deployment
from console.doctor import credentials, deployed, providers
from console.doctor.report import Check
from local import keys, tls
from local.apns import Apns
from local.fcm import Fcm
from tests.console.account import ACCOUNT, PREFIX, REGION, Account, Clarion, fill_in, variables

TOKEN = "c0ffee" * 10 + "c0de"


def emulated(account: Account) -> Deployment:
    return replace(account.here, stage=EMULATED_STAGE)


def configure(account: Account, *channels: str, **settings: str) -> None:
    """The deployment has these channels alone."""
    outputs = account.cloudformation.stacks["clarion-prod-stack"]
    for name in ("apns", "voip", "fcm", "webpush"):
        if name not in channels:
            outputs.pop(f"{name.title()}QueueUrl", None)
    for channel in channels:
        account.lambda_.update_function_configuration(
            FunctionName=f"{PREFIX}{channel}", Environment={"Variables": variables(**settings)}
        )
        account.go_live(channel)


def todos(checks: Iterable[Check]) -> dict[str, str | None]:
    return {check.name: check.todo for check in checks}


def test_a_secret_that_is_random_letters_is_to_be_filled_in(account: Account) -> None:
    configure(account, "apns", "voip", provider_secret_id=fill_in("apns", "random letters"))

    (check,) = credentials.check_secrets(account.here)

    assert (check.name, check.todo) == ("secret clarion-prod-apns", credentials.FILL_IN)
    assert "random letters" not in check.found


@pytest.mark.parametrize(("text", "todo"), [("{}", credentials.FILL_IN), (json.dumps({"secret": "s" * 32}), None)])
def test_the_secret_of_the_tokens_issuer_is_looked_at(account: Account, text: str, todo: str | None) -> None:
    configure(account)
    account.cloudformation.stacks["clarion-prod-stack"]["JwtSecretId"] = fill_in("jwt", text)

    assert todos(credentials.check_secrets(account.here)) == {"secret clarion-prod-jwt": todo}


@pytest.mark.parametrize(
    ("text", "todo"),
    [("random letters", credentials.FIRST_KEY), (BouncerKeys().rotated(1_700_000_000).text, None)],
    ids=["unfilled", "filled in"],
)
def test_the_secret_of_zulips_bouncer_is_looked_at(account: Account, text: str, todo: str | None) -> None:
    configure(account)
    account.cloudformation.stacks["clarion-prod-stack"]["ZulipBouncerSecretId"] = fill_in(BOUNCER_SECRET, text)

    checks = list(credentials.check_secrets(account.here))

    assert todos(checks) == {"secret clarion-prod-zulip-bouncer": todo}
    assert text not in checks[0].found


@pytest.mark.parametrize(
    ("text", "todo"),
    [("random letters", credentials.CREATE_KEYS), (ServerKeys.generate().text, None)],
    ids=["unfilled", "filled in"],
)
def test_the_secret_of_the_notify_server_is_looked_at(account: Account, text: str, todo: str | None) -> None:
    configure(account)
    outputs = account.cloudformation.stacks["clarion-prod-stack"]
    outputs["WalletconnectServerSecretId"] = fill_in(SERVER_SECRET, text)

    checks = list(credentials.check_secrets(account.here))

    assert todos(checks) == {"secret clarion-prod-walletconnect-server": todo}
    assert text not in checks[0].found


def test_every_app_and_its_sandbox_has_its_secret_looked_at(account: Account, apple_key: keys.ApnsKeyPair) -> None:
    good = asdict(apple_key)
    further = [{"name": "second", "secret_id": fill_in("apns-second", "none"), "bundle_id": "org.example.second"}]
    configure(
        account,
        "apns",
        provider_secret_id=fill_in("apns", good),
        sandbox_secret_id=fill_in("apns-sandbox", good),
        apps=json.dumps(further),
    )

    assert todos(credentials.check_secrets(account.here)) == {
        "secret clarion-prod-apns": None,
        "secret clarion-prod-apns-sandbox": None,
        "secret clarion-prod-apns-second": credentials.FILL_IN,
    }


def test_apple_is_asked_in_its_sandbox_and_nobody_is_pushed_to(
    account: Account, apple: Apns, apple_key: keys.ApnsKeyPair, localhost: tls.Localhost
) -> None:
    secret = fill_in("apns", asdict(apple_key))
    configure(account, "apns", "voip", provider_secret_id=secret, **reached(apple, "apns_sandbox_url", localhost))

    assert todos(providers.check_credentials(emulated(account))) == {"apns for app first": None}
    assert {push.token for push in apple.received} == {providers.NOBODY}


def reached(server: Any, name: str, localhost: tls.Localhost) -> dict[str, str]:
    return {name: server.url, "ca_file": str(localhost.ca_file)}


def test_a_key_that_apple_does_not_know_is_to_be_corrected(
    account: Account, apple: Apns, localhost: tls.Localhost
) -> None:
    secret = fill_in("apns", asdict(keys.generate_apns_key()))
    configure(account, "apns", provider_secret_id=secret, **reached(apple, "apns_sandbox_url", localhost))

    (check,) = providers.check_credentials(emulated(account))

    assert (check.found, check.todo) == ("InvalidProviderToken", providers.CORRECT)


def test_google_validates_and_delivers_nothing(
    account: Account, google: Fcm, google_account: keys.ServiceAccount, localhost: tls.Localhost
) -> None:
    secret = fill_in("fcm", google_account.as_json(google.token_uri))
    configure(account, "fcm", provider_secret_id=secret, **reached(google, "fcm_url", localhost))

    assert todos(providers.check_credentials(emulated(account))) == {"fcm for app first": None}
    assert len(google.received) == 0


def test_an_account_that_google_does_not_know_is_to_be_corrected(
    account: Account, google: Fcm, localhost: tls.Localhost
) -> None:
    secret = fill_in("fcm", keys.generate_service_account().as_json(google.token_uri))
    configure(account, "fcm", provider_secret_id=secret, **reached(google, "fcm_url", localhost))

    (check,) = providers.check_credentials(emulated(account))

    assert (check.found, check.todo) == ("oauth: invalid_grant", providers.CORRECT)


def test_a_version_that_is_not_live_is_not_looked_at(account: Account) -> None:
    configure(account, "apns", "voip", provider_secret_id=fill_in("apns", "live"))
    for channel in ("apns", "voip"):
        account.lambda_.update_function_configuration(
            FunctionName=f"{PREFIX}{channel}", Environment={"Variables": variables(provider_secret_id="another")}
        )

    assert todos(credentials.check_secrets(account.here)) == {"secret clarion-prod-apns": credentials.FILL_IN}


def test_only_in_the_emulator_a_stand_in_gets_a_credential(
    account: Account,
    apple: Apns,
    apple_key: keys.ApnsKeyPair,
    localhost: tls.Localhost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apns, "URLS", {**apns.URLS, Environment.SANDBOX: "https://127.0.0.1:1"})
    secret = fill_in("apns", asdict(apple_key))
    configure(account, "apns", provider_secret_id=secret, **reached(apple, "apns_sandbox_url", localhost))
    before = len(apple.received)

    (check,) = providers.check_credentials(account.here)

    assert (check.todo, len(apple.received)) == (providers.AGAIN, before)


def test_a_provider_out_of_reach_is_to_be_asked_again(
    account: Account, apple_key: keys.ApnsKeyPair, localhost: tls.Localhost
) -> None:
    secret = fill_in("apns", asdict(apple_key))
    nowhere = {"apns_sandbox_url": "https://127.0.0.1:1", "ca_file": str(localhost.ca_file)}
    configure(account, "apns", provider_secret_id=secret, **nowhere)

    (check,) = providers.check_credentials(emulated(account))

    assert check.todo == providers.AGAIN


@pytest.fixture
def topic(account: Account) -> str:
    arn = str(boto3.client("sns").create_topic(Name=f"{PREFIX}alarms")["TopicArn"])
    account.cloudformation.stacks["clarion-prod-stack"]["AlarmTopic"] = arn
    return arn


def test_alarms_that_nobody_receives_are_told(account: Account, topic: str) -> None:
    assert todos(deployed.check_alarm_receivers(account.here)) == {"alarms": 'make deploy with CONTEXT="alarm_email=…"'}


def test_mail_has_to_be_confirmed(account: Account, topic: str) -> None:
    arn = boto3.client("sns").subscribe(TopicArn=topic, Protocol="email", Endpoint="ops@example.org")["SubscriptionArn"]
    assert todos(deployed.check_alarm_receivers(account.here)) == {"alarms to ops@example.org": None}
    sns_backends[ACCOUNT][REGION].subscriptions[arn].arn = deployed.PENDING  # moto takes every address for confirmed

    assert todos(deployed.check_alarm_receivers(account.here)) == {
        "alarms to ops@example.org": "follow the link in AWS's mail to that address"
    }


def test_a_receiver_s_url_is_not_shown_whole(account: Account, topic: str) -> None:
    """A pager's is its key."""
    url = "https://events.example.org/integration/0123456789abcdef/enqueue"
    boto3.client("sns").subscribe(TopicArn=topic, Protocol="https", Endpoint=url)

    (check,) = deployed.check_alarm_receivers(account.here)

    assert check.name == "alarms to https events.example.org"


def test_a_deployment_without_alarms_has_nobody_to_confirm(account: Account) -> None:
    assert list(deployed.check_alarm_receivers(account.here)) == []


def test_an_api_that_can_not_be_reached_is_told_with_where_its_domain_has_to_lead(account: Account) -> None:
    outputs = account.cloudformation.stacks["clarion-prod-stack"]
    outputs["ApiUrl"] = "http://127.0.0.1:1"
    (check,) = deployed.check_api(account.here)
    assert check.todo == "look at docs/operations.md#api-failing"
    outputs["ApiAddress"] = "d111111abcdef8.cloudfront.net"

    (check,) = deployed.check_api(account.here)

    assert check.todo == "let the domain's name lead to d111111abcdef8.cloudfront.net, by a CNAME or alias record"


def test_what_status_finds_is_to_do_as_well(account: Account) -> None:
    account.send("fcm-dead", "a letter")

    assert [check.found for check in deployed.check_status(account.here)] == [
        "1 dead letter",
        "no ingest task is at work",
    ]


def test_a_test_push_is_sent_if_asked_for(
    clarion: Clarion, account: Account, monkeypatch: pytest.MonkeyPatch, at_work: None
) -> None:
    monkeypatch.setattr(send_test, "WAIT_SECONDS", 1)
    monkeypatch.setattr(send_test, "POLL_SECONDS", 0.1)
    configure(account, "fcm", provider_secret_id=fill_in("fcm", "none"))
    account.cloudformation.stacks["clarion-prod-stack"]["ApiUrl"] = account.cloudformation.url

    ended = clarion("doctor", "--send-test", "fcm", "--json", typed=f"{TOKEN}\n")

    last = json.loads(ended.out)["checks"][-1]
    assert (ended.code, account.count("fcm"), last["name"]) == (1, 1, "test push by fcm")
    assert last["todo"].startswith("clarion why --envelope 0x")
    assert TOKEN not in ended.out + ended.err
