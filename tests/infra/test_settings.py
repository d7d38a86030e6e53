"""The environment that each function and task is given is one that its component accepts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template
from pydantic import BaseModel, ValidationError

from api.settings import ApiSettings, AuthorizerSettings, DirectPushSettings
from clarion.channels import CHANNELS, PROVIDERS, Provider
from clarion.issuers import JwksIssuer
from clarion.settings import Settings
from cleanup.handler import CleanupSettings
from dispatch.settings import DispatchSettings
from infra import alarms
from infra.environments import PROD
from infra.options import Allowance, Config, FollowingConfig, Ingest, Matching, stub_names
from ingest import counts
from ingest.lease import shards
from ingest.settings import IngestSettings
from late_events.handler import LateEventsSettings
from match.caps import MAX_BLOCK, block_size
from match.settings import MatchSettings
from schedule.handler import ScheduleSettings
from tests.infra.templates import function_variables, resolved, task_variables

SETTINGS: Mapping[str, type[Settings]] = {
    "match": MatchSettings,
    "pages": MatchSettings,
    **dict.fromkeys(map(str, CHANNELS), DispatchSettings),
    "api": ApiSettings,
    "authorizer": AuthorizerSettings,
    "cleanup": CleanupSettings,
    "deliveries": Settings,
    "late-events": LateEventsSettings,
    "schedule": ScheduleSettings,
    "ingest": IngestSettings,
}
OPTIONS: Mapping[type[Config], type[BaseModel]] = {
    Allowance: ApiSettings,
    Matching: MatchSettings,
    FollowingConfig: IngestSettings,
}
"""The configuration that is handed on to a component as it is."""


ELSEWHERE = ("ingest", "local")
"""What no stack holds: beside the emulator, ingest runs as a process of its own."""

JWKS = {
    "issuer": "https://login.example.org",
    "audience": "clarion",
    "algorithms": ["RS256", "ES256"],
    "jwks_url": "https://login.example.org/keys.json",
}
APPS: list[dict[str, Any]] = [
    {"name": "messenger", "alert_title": "Messenger", "bundle_id": "org.example.messenger"},
    {
        "name": "tablet",
        "alert_title": "Tablet",
        "bundle_id": "org.example.tablet",
        "apns_sandbox": True,
        "providers": ["apns"],
    },
    {"name": "robot", "alert_title": "Robot", "providers": ["fcm", "webpush", "webhook"]},
]
ALLOWANCE = {
    "subscriptions_per_client": 5,
    "rules_per_subscription": 4_000,
    "rules_per_request": 3_000,
    "rules_per_page": 2_000,
    "body_bytes": 1_000_000,
    "requests_per_ten_seconds": 30,
    "rules_per_minute": 9_000,
    "looks_per_minute": 7,
}


MATCHING = {
    "limits": {"statements": {"count": 40, "window_seconds": 90, "cooldown_seconds": 0}},
    "subscription_cap": 200,
    "subscription_cap_seconds": 30,
    "fan_out_page": 100,
}
FOLLOWING = {
    "first_replay": "handle",
    "seen_limit": 1_000_000,
    "outbox_bytes": 1_000_000,
    "second_look_bytes": 2_000_000,
    "standby_bytes": 2_500_000,
    "node_budgets": {"xmtp": {"message_bytes": 3_000_000, "bytes_per_second": 4_000_000}},
    **{name: 7.5 for name in FollowingConfig.model_fields if name.endswith("_seconds")},
}
INGEST = {
    "nodes": {
        "statements": ["wss://one.example", "wss://two.example"],
        "xmtp": ["https://one.example:5556", "https://two.example"],
        "walletconnect": ["wss://relay.example"],
    },
    "tasks": 1,
    "cpu": 256,
    "memory_mb": 512,
}
STUBS = {
    "apns_url": "https://127.0.0.1:1/",
    "apns_sandbox_url": "https://127.0.0.1:2/",
    "fcm_url": "https://127.0.0.1:3/",
    "webhook_stand_in_url": "https://127.0.0.1:4/",
    "ca_file": "authorities.pem",
}


EVERYTHING: dict[str, Any] = {
    "networks": ["statements", "xmtp", "walletconnect", "simplex"],
    "options": {
        "walletconnect": {
            "domain": "notify.example.org",
            "relay_url": "https://relay.example",
            "relay_project_id": "0" * 32,
            "key_servers": ["keys.example"],
        },
        "simplex": {"hosts": ["ntf.example.org"], "app": APPS[0]["name"]},
    },
    "apps": [{**APPS[0], "apns_sandbox": True}, *APPS[1:]],
    "matching": MATCHING,
    "ingest": {**INGEST, "following": FOLLOWING},
    "providers": STUBS,
    "channels": list(CHANNELS),
    "push_services": ["push.example.org"],
    "webhook_url": "https://push.example.org/take",
    "api": {
        "allowance": ALLOWANCE,
        "pushes_per_minute": 7,
        "pushes_per_token_per_minute": 6,
        "token_proof": "always",
        "jwt_audience": "clarion",
        "token_lifetime_seconds": 3_600,
        "login_domain": "push.example.org",
        "issuers": [JWKS],
    },
}
FIXED = IngestSettings.model_fields.keys() - FollowingConfig.model_fields.keys()
UNSET: Mapping[str, set[str]] = {
    "apns": {"push_services", "webhook_url"},
    "voip": {"command_queues", "payload_secrets", "held_url", "push_services", "webhook_url"},
    "fcm": {"command_queues", "payload_secrets", "sandbox_secret_id", "push_services", "webhook_url"},
    "webpush": {"command_queues", "payload_secrets", "sandbox_secret_id", "webhook_url"},
    "webhook": {"command_queues", "payload_secrets", "sandbox_secret_id", "push_services"},
    "ingest": {
        *(name for name in FIXED if name.endswith("_seconds")),
        "ca_file",
        "state_bucket",
        "state_prefix",
        "health_port",
    },
}
"""What no environment sets: what a provider or a network without commands has no use for, how ingest works inside, and
what its permissions and its container are made for."""


@pytest.fixture(scope="module")
def everything(template_with: Callable[..., Template]) -> Template:
    """The template of an environment that leaves nothing to the defaults."""
    return template_with(**EVERYTHING)


def settings_of[S: Settings](template: Template, name: str, kind: type[S], stage: str = "prod") -> S:
    """As the function or the task will read them."""
    variables = (
        task_variables(template) if name == "ingest" else function_variables(template, f"clarion-{stage}-{name}")
    )
    return kind.from_environment({key: resolved(value) for key, value in variables.items()})


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        (name, stage)
        for stage in ("prod", "local")
        for name in SETTINGS
        if (name, stage) != ELSEWHERE and (stage == "local" or name not in CHANNELS or name in PROD.channels)
    ],
)
def test_each_component_understands_its_environment(
    template_of: Callable[[str], Template], name: str, stage: str
) -> None:
    template = template_of("prod" if stage == "prod" else "emulator")
    settings = settings_of(template, name, SETTINGS[name], stage)
    assert settings.stage == stage
    assert getattr(settings, "table_prefix", f"clarion-{stage}-") == f"clarion-{stage}-"
    assert getattr(settings, "channel", name) == name


@pytest.mark.parametrize("option", OPTIONS)
def test_configuration_has_the_names_of_what_it_sets(option: type[Config]) -> None:
    assert option.model_fields.keys() <= OPTIONS[option].model_fields.keys()


def test_each_stand_in_is_a_setting_of_dispatch_and_of_direct_pushes() -> None:
    assert set(stub_names()) <= DispatchSettings.model_fields.keys()
    direct = {name for spec in PROVIDERS.values() if spec.takes_direct_pushes for name in spec.addresses}
    assert direct <= DirectPushSettings.model_fields.keys()


def test_how_match_decides_and_ingest_follows_is_configured(everything: Template) -> None:
    ingest = settings_of(everything, "ingest", IngestSettings)
    for name in ("match", "pages"):
        match = settings_of(everything, name, MatchSettings)
        assert match.model_dump(include=set(MATCHING), mode="json") == MATCHING
    assert ingest.model_dump(include=set(FOLLOWING)) == FOLLOWING
    assert ingest.nodes == {
        "statements": ("wss://one.example/", "wss://two.example/"),
        "xmtp": ("https://one.example:5556/", "https://two.example/"),
        "walletconnect": ("wss://relay.example/",),
    }


def test_pushes_go_to_the_stand_ins_that_are_configured(everything: Template) -> None:
    settings = settings_of(everything, "apns", DispatchSettings)
    assert (settings.apns_url, settings.apns_sandbox_url) == ("https://127.0.0.1:1", "https://127.0.0.1:2")
    assert settings.ca_file == "authorities.pem"


def test_a_further_push_service_is_one_to_whoever_reads_browsers_endpoints(everything: Template) -> None:
    assert settings_of(everything, "webpush", DispatchSettings).push_services == ("push.example.org",)
    assert settings_of(everything, "api", ApiSettings).push_services == ("push.example.org",)


def test_the_webhook_leads_where_the_operator_says(everything: Template) -> None:
    settings = settings_of(everything, "webhook", DispatchSettings)
    assert settings.webhook_url == "https://push.example.org/take"
    assert settings.webhook_stand_in_url == STUBS["webhook_stand_in_url"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (Matching, {"limits": {"statements": {"count": 0, "window_seconds": 1, "cooldown_seconds": 0}}}),
        (Matching, {"subscription_cap": 0}),
        (FollowingConfig, {"stream_poll_seconds": 0.1}),
        (FollowingConfig, {"first_replay": "forget"}),
        (FollowingConfig, {"lease_seconds": 0}),
    ],
)
def test_what_a_component_could_not_work_with_stops_synthesis(option: type[Config], value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(value))):
        option.model_validate(value)


@pytest.mark.parametrize("following", [{}, {"stream_poll_seconds": 0.7}])
def test_more_than_two_tasks_read_the_rules_stream_more_seldom(following: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"stream_poll_seconds: 4 tasks need 0\.8 or more"):
        Ingest.model_validate({**INGEST, "tasks": 4, "following": following})
    assert Ingest.model_validate({**INGEST, "tasks": 4, "following": {"stream_poll_seconds": 0.8}}).tasks == 4


def test_the_alarm_counts_the_shards_that_there_are_in_most_of_a_minutes_reports() -> None:
    assert alarms.SHARDS == shards.SHARDS
    assert alarms.REPORTS_A_MINUTE < 60 / counts.PERIOD


def test_what_a_client_may_do_is_configured(template_with: Callable[..., Template]) -> None:
    template = template_with(api={"allowance": ALLOWANCE, "pushes_per_minute": 7})
    settings = settings_of(template, "api", ApiSettings)
    assert settings.model_dump(include=set(ALLOWANCE)) == ALLOWANCE
    assert settings.direct_push
    assert settings.direct_push.pushes_per_minute == 7


FOLLOWED_OTHERWISE = PROD.ingest.following.model_fields_set if PROD.ingest else set()
"""What production sets, as its tasks are small."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("api", Allowance.model_fields),
        ("match", Matching.model_fields),
        ("pages", Matching.model_fields),
        ("ingest", FollowingConfig.model_fields.keys() - FOLLOWED_OTHERWISE),
        ("apns", stub_names()),
    ],
)
def test_what_is_not_configured_is_left_to_the_component(prod: Template, name: str, options: Iterable[str]) -> None:
    assert not settings_of(prod, name, SETTINGS[name]).model_fields_set & set(options)


def test_what_is_not_configured_of_direct_push_is_left_to_the_api(prod: Template) -> None:
    settings = settings_of(prod, "api", ApiSettings)
    assert settings.direct_push
    assert not {"pushes_per_minute", "pushes_per_token_per_minute"} & settings.direct_push.model_fields_set


def test_an_issuer_that_publishes_its_keys_can_take_the_place_of_the_shared_secret(
    template_with: Callable[..., Template],
) -> None:
    template = template_with(api={"jwt_issuer": None, "jwt_audience": None, "issuers": [JWKS]})
    settings = settings_of(template, "authorizer", AuthorizerSettings)
    assert settings.issuers == (JwksIssuer.model_validate(JWKS),)
    assert settings.jwt_secret_id is None
    assert not template.find_resources("AWS::SecretsManager::Secret", {"Properties": {"Name": "clarion-prod-jwt"}})


def test_the_shared_secret_is_for_an_audience(template_with: Callable[..., Template]) -> None:
    template = template_with(api={"jwt_audience": "pushes", "token_lifetime_seconds": 3_600, "issuers": [JWKS]})
    settings = settings_of(template, "authorizer", AuthorizerSettings)
    assert (settings.jwt_issuer, settings.jwt_audience) == ("polkadot-app", "pushes")
    assert settings.token_lifetime_seconds == 3_600


def test_the_api_knows_the_apps_of_each_channel(template_with: Callable[..., Template]) -> None:
    settings = settings_of(template_with(apps=APPS), "api", ApiSettings)
    reached = {Provider.APNS: {"messenger", "tablet"}}
    assert settings.apps == {
        channel: reached.get(CHANNELS[channel].provider, {"messenger", "robot"}) for channel in PROD.channels
    }


def test_each_channel_knows_the_apps_of_its_provider(template_with: Callable[..., Template]) -> None:
    template = template_with(apps=APPS)
    settings = {name: settings_of(template, name, DispatchSettings) for name in ("apns", "voip", "fcm")}
    assert [app.name for app in settings["apns"].all_apps] == ["messenger", "tablet"]
    assert settings["voip"].all_apps == settings["apns"].all_apps
    assert [app.name for app in settings["fcm"].all_apps] == ["messenger", "robot"]
    messenger, tablet = settings["apns"].all_apps
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
        assert DirectPushSettings.model_fields.keys() == settings.direct_push.model_fields_set


@pytest.mark.parametrize("channel", PROD.channels)
def test_dispatch_gives_up_a_message_at_the_last_of_the_receives_that_its_queues_allow(
    prod: Template, channel: str
) -> None:
    queues = [each["Properties"] for each in prod.find_resources("AWS::SQS::Queue").values()]
    names = {f"clarion-prod-{channel}", f"clarion-prod-{channel}-held"}
    allowed = {each["RedrivePolicy"]["maxReceiveCount"] for each in queues if each["QueueName"] in names}
    assert allowed == {settings_of(prod, channel, DispatchSettings).max_receives}


def test_a_caps_upper_bound_holds_for_as_many_sandboxes_as_production_runs() -> None:
    cap = MatchSettings.model_fields["subscription_cap"].default
    assert block_size(cap, PROD.match.concurrency) == MAX_BLOCK
    at_work = PROD.match.concurrency * PROD.match.batch + PROD.pages.concurrency * PROD.pages.batch
    assert at_work <= cap
