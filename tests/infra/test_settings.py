"""The environment that each function and task is given is one that its room accepts."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from api.settings import ApiSettings, AuthorizerSettings, DirectPushSettings, JwksIssuer
from clarion.settings import Settings
from dispatch.settings import DispatchSettings
from ingest.settings import IngestSettings
from match.settings import MatchSettings

SETTINGS: Mapping[str, type[Settings]] = {
    "match": MatchSettings,
    "apns": DispatchSettings,
    "voip": DispatchSettings,
    "fcm": DispatchSettings,
    "api": ApiSettings,
    "authorizer": AuthorizerSettings,
}


JWKS = {
    "issuer": "https://login.example.org",
    "audience": "clarion",
    "algorithms": ["RS256", "ES256"],
    "jwks_url": "https://login.example.org/keys.json",
}
APPS: list[dict[str, Any]] = [
    {"name": "messenger", "alert_title": "Messenger", "bundle_id": "org.example.messenger"},
    {"name": "tablet", "alert_title": "Tablet", "bundle_id": "org.example.tablet", "apns_sandbox": True, "fcm": False},
    {"name": "robot", "alert_title": "Robot"},
]
ALLOWANCE = {
    "subscriptions_per_client": 5,
    "rules_per_subscription": 4_000,
    "rules_per_request": 3_000,
    "rules_per_page": 2_000,
    "body_bytes": 1_000_000,
    "requests_per_minute": 30,
}


EVERYTHING: dict[str, Any] = {
    "apps": [{**APPS[0], "apns_sandbox": True}, *APPS[1:]],
    "providers": {"apns_url": "https://127.0.0.1:1", "fcm_url": "https://127.0.0.1:2", "ca_file": "authorities.pem"},
    "api": {
        "allowance": ALLOWANCE,
        "pushes_per_minute": 7,
        "jwt_audience": "clarion",
        "login_domain": "push.example.org",
        "issuers": [JWKS],
    },
}
UNSET: Mapping[str, set[str]] = {
    "match": {"fan_out_page", "second_look_seconds", "rate_limit", "rate_window_seconds", "rate_cooldown_seconds"},
    "apns": {"apns_sandbox_url"},
    "voip": {"apns_sandbox_url"},
    "fcm": {"apns_sandbox_url", "sandbox_secret_id"},
}
"""What no environment sets: match's limits, which are the product's, and what a provider has no use for."""


def resolved(value: Any) -> str:
    """What CloudFormation fills in later stands here as some text."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(resolved(part) for part in parts)
    return "told-at-deployment"


@pytest.fixture(scope="module")
def everything(template_with: Callable[..., Template]) -> Template:
    """The template of an environment that leaves nothing to the defaults."""
    return template_with(**EVERYTHING)


def settings_of[S: Settings](template: Template, name: str, kind: type[S], stage: str = "prod") -> S:
    """As the function will read them."""
    functions = template.find_resources(
        "AWS::Lambda::Function", {"Properties": {"FunctionName": f"clarion-{stage}-{name}"}}
    )
    (function,) = functions.values()
    variables = function["Properties"]["Environment"]["Variables"]
    return kind.from_environment({key: resolved(value) for key, value in variables.items()})


@pytest.mark.parametrize("stage", ["prod", "local"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_function_understands_its_environment(template_of: Callable[[str], Template], name: str, stage: str) -> None:
    template = template_of("prod" if stage == "prod" else "emulator")
    settings = settings_of(template, name, SETTINGS[name], stage)
    assert getattr(settings, "table_prefix", f"clarion-{stage}-") == f"clarion-{stage}-"
    assert getattr(settings, "notify_type", name) == name


def test_the_ingest_task_understands_its_environment(prod: Template) -> None:
    (task,) = prod.find_resources("AWS::ECS::TaskDefinition").values()
    (container,) = task["Properties"]["ContainerDefinitions"]
    variables = {each["Name"]: resolved(each["Value"]) for each in container["Environment"]}
    settings = IngestSettings.from_environment(variables)
    assert settings.node_urls[0].startswith("wss://")


def test_what_a_client_may_do_is_configured(template_with: Callable[..., Template]) -> None:
    template = template_with(api={"allowance": ALLOWANCE, "pushes_per_minute": 7})
    settings = settings_of(template, "api", ApiSettings)
    assert settings.model_dump(include=set(ALLOWANCE)) == ALLOWANCE
    assert settings.direct_push
    assert settings.direct_push.pushes_per_minute == 7


def test_what_is_not_configured_is_left_to_the_function(prod: Template) -> None:
    settings = settings_of(prod, "api", ApiSettings)
    assert not settings.model_fields_set & set(ALLOWANCE)
    assert settings.direct_push
    assert "pushes_per_minute" not in settings.direct_push.model_fields_set


def test_an_issuer_that_publishes_its_keys_can_take_the_place_of_the_shared_secret(
    template_with: Callable[..., Template],
) -> None:
    template = template_with(api={"jwt_issuer": None, "issuers": [JWKS]})
    settings = settings_of(template, "authorizer", AuthorizerSettings)
    assert settings.issuers == (JwksIssuer.model_validate(JWKS),)
    assert settings.jwt_secret_id is None
    assert not template.find_resources("AWS::SecretsManager::Secret", {"Properties": {"Name": "clarion-prod-jwt"}})


def test_the_shared_secret_may_be_for_an_audience(template_with: Callable[..., Template]) -> None:
    template = template_with(api={"jwt_audience": "clarion", "issuers": [JWKS]})
    settings = settings_of(template, "authorizer", AuthorizerSettings)
    assert (settings.jwt_issuer, settings.jwt_audience) == ("polkadot-app", "clarion")


def test_each_provider_is_told_of_the_apps_that_it_reaches(template_with: Callable[..., Template]) -> None:
    template = template_with(apps=APPS)
    told = {name: settings_of(template, name, DispatchSettings) for name in ("apns", "voip", "fcm")}
    assert [app.name for app in told["apns"].all_apps] == ["messenger", "tablet"]
    assert told["voip"].all_apps == told["apns"].all_apps
    assert [app.name for app in told["fcm"].all_apps] == ["messenger", "robot"]
    messenger, tablet = told["apns"].all_apps
    assert (messenger.bundle_id, messenger.alert_title) == ("org.example.messenger", "Messenger")
    assert (tablet.bundle_id, tablet.alert_title) == ("org.example.tablet", "Tablet")
    assert tablet.sandbox_secret_id
    assert messenger.sandbox_secret_id is None


def test_direct_pushes_reach_the_sandbox_with_its_own_key(template_with: Callable[..., Template]) -> None:
    template = template_with(apps=[{**APPS[0], "apns_sandbox": True}])
    direct = settings_of(template, "api", ApiSettings).direct_push
    assert direct
    assert direct.apns_sandbox_secret_id
    assert settings_of(template, "apns", DispatchSettings).sandbox_secret_id
    assert settings_of(template, "fcm", DispatchSettings).sandbox_secret_id is None


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_can_be_deployed(everything: Template, name: str) -> None:
    settings = settings_of(everything, name, SETTINGS[name])
    assert type(settings).model_fields.keys() - settings.model_fields_set == UNSET.get(name, set())
    if isinstance(settings, ApiSettings):
        assert settings.direct_push
        assert DirectPushSettings.model_fields.keys() - settings.direct_push.model_fields_set == {"apns_sandbox_url"}
