import json
from typing import Any

import pytest
from aws_cdk import App
from constructs import Node
from pydantic import ValidationError

from clarion.channels import Channel, Provider
from clarion.networks import STATEMENTS, WALLETCONNECT, XMTP, ZULIP, network
from clarion.networks.needs import Nodes
from infra.config import Consumer, EnvironmentConfig
from infra.environments import EMULATOR, ENVIRONMENTS, PROD, chosen
from infra.options import ApiConfig, Ingest, Size, Stubs

SIZE = Size(memory_mb=512, timeout_s=30)
API = dict(PROD.api)
DIRECT = {**API, "direct_push": True}
JWKS = {
    "issuer": "https://login.example.org",
    "audience": "clarion",
    "algorithms": ["ES256"],
    "jwks_url": "https://login.example.org/keys.json",
}


ROBOT = {"name": "robot", "alert_title": "Robot", "providers": ["fcm"]}
CERTIFICATE = "arn:aws:acm:us-east-1:111111111111:certificate/of-the-domain"


EMAIL = "operators@example.org"
BUDGET = {"message_bytes": 1_000, "bytes_per_second": 2_000}


def node(**context: Any) -> Node:
    return App(context={"alarm_email": EMAIL, **context}).node


def test_each_environment_has_a_stage_of_its_own() -> None:
    assert len({environment.stage for environment in ENVIRONMENTS.values()}) == len(ENVIRONMENTS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_valid(name: str) -> None:
    environment = chosen(node(environment=name, node_urls="wss://one.example"))
    assert (
        environment.model_copy(update={"ingest": ENVIRONMENTS[name].ingest, "alarm_email": None}) == ENVIRONMENTS[name]
    )


@pytest.mark.parametrize(("part", "field", "wrong"), [("match", "concurrency", 1), ("pipeline", "workers", 1)])
def test_what_is_wrong_in_a_copy_of_another_environment_stops_synthesis(
    monkeypatch: pytest.MonkeyPatch, part: str, field: str, wrong: int
) -> None:
    copied = PROD.model_copy(update={part: getattr(PROD, part).model_copy(update={field: wrong})})
    monkeypatch.setitem(ENVIRONMENTS, "prod", copied)
    with pytest.raises(ValidationError, match=f"{part}.{field}"):
        chosen(node(environment="prod", node_urls="wss://one.example"))


def test_the_address_that_alarms_go_to_comes_from_the_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example"}
    assert chosen(node(**given)).alarm_email == EMAIL
    with pytest.raises(ValidationError, match="alarm_email"):
        chosen(node(**{**given, "alarm_email": "operators"}))


def test_production_is_not_deployed_with_alarms_that_nobody_gets() -> None:
    with pytest.raises(ValueError, match="'prod' has alarms but no `alarm_email`"):
        chosen(App(context={"environment": "prod", "node_urls": "wss://one.example"}).node)


def test_a_deployment_to_be_thrown_away_may_have_alarms_that_nobody_gets() -> None:
    assert chosen(App(context={"environment": "dev", "node_urls": "wss://one.example"}).node).alarm_email is None


def test_an_unknown_environment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'staging', not one of prod, dev, emulator"):
        chosen(node(environment="staging"))


def test_no_environment_is_the_default() -> None:
    with pytest.raises(ValueError, match="None"):
        chosen(node())


@pytest.mark.parametrize(
    ("name", "nearest"), [("alarm_mail", "alarm_email"), ("node_url", "node_urls"), ("channel", "channels")]
)
def test_a_name_that_the_context_does_not_take_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'; the nearest that it takes is '{nearest}'"):
        chosen(node(environment="prod", node_urls="wss://one.example", **{name: "any"}))


@pytest.mark.parametrize(
    "name", ["cli-telemetry", "@aws-cdk/core:any", "availability-zones:account=1:region=us-east-1"]
)
def test_what_cdk_keeps_in_the_context_is_left_to_it(name: str) -> None:
    assert chosen(node(environment="prod", node_urls="wss://one.example", **{name: "any"})).stage == "prod"


def test_the_emulator_takes_stand_ins_from_the_context() -> None:
    environment = chosen(node(environment="emulator", apns_url="https://127.0.0.1:2197"))
    assert environment.providers.as_settings() == {"apns_url": "https://127.0.0.1:2197"}


def test_networks_come_from_the_environment_or_the_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example", "xmtp_nodes": "https://one.example"}
    assert chosen(node(**given)).networks == ("statements",)
    assert chosen(node(**given, networks="statements,xmtp")).networks == ("statements", "xmtp")
    with pytest.raises(ValidationError, match="no network is called carrier-pigeon"):
        chosen(node(**given, networks="statements,carrier-pigeon"))


HOOK = "https://push.example.org/take"


def test_the_channels_come_from_the_environment_or_the_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example"}
    assert chosen(node(**given)).channels == (Channel.APNS, Channel.VOIP, Channel.FCM)
    environment = chosen(node(**given, channels="apns,fcm,webhook", webhook_url=HOOK))
    assert environment.channels == (Channel.APNS, Channel.FCM, Channel.WEBHOOK)
    assert environment.webhook_url == HOOK
    assert environment.deployed_providers == (Provider.APNS, Provider.FCM, Provider.WEBHOOK)


def test_all_channels_are_there_to_try_in_the_emulator() -> None:
    assert EMULATOR.channels == tuple(Channel)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"channels": []}, "at least 1"),
        ({"channels": ["apns", "apns", "fcm"]}, "a channel is named twice"),
        ({"channels": ["apns", "fcm", "pigeon"]}, "channels"),
        ({"channels": ["apns", "fcm", "webhook"]}, "webhook_url and the channel webhook go together"),
        ({"webhook_url": HOOK}, "webhook_url and the channel webhook go together"),
        ({"channels": ["apns", "voip"], "api": DIRECT}, "direct_push needs a channel of fcm, too"),
        ({"channels": ["webpush"], "api": DIRECT}, "direct_push needs a channel of apns, fcm, too"),
    ],
)
def test_channels_must_make_sense(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        EnvironmentConfig.model_validate({**dict(PROD), **changes})


@pytest.mark.parametrize(
    ("channels", "direct_push"), [("apns,fcm", True), ("voip,fcm", True), ("fcm", False), ("webpush", False)]
)
def test_there_are_direct_pushes_where_the_channels_have_their_providers(channels: str, *, direct_push: bool) -> None:
    environment = chosen(node(environment="prod", node_urls="wss://one.example", channels=channels))
    assert environment.direct_push is direct_push


def test_direct_pushes_can_be_left_out() -> None:
    assert not EnvironmentConfig.model_validate({**dict(PROD), "api": {**API, "direct_push": False}}).direct_push


@pytest.mark.parametrize("url", ["http://push.example.org/", "https://me:secret@push.example.org/", f"{HOOK}?k=secret"])
def test_the_webhook_s_address_is_https_and_holds_no_secret_nor_shows_one(url: str) -> None:
    changes = {"channels": ["apns", "fcm", "webhook"], "webhook_url": url}
    with pytest.raises(ValidationError, match="webhook_url") as refused:
        EnvironmentConfig.model_validate({**dict(PROD), **changes})
    assert "secret" not in str(refused.value)


def test_further_push_services_come_from_the_environment_or_the_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example"}
    assert chosen(node(**given)).push_services == ()
    environment = chosen(node(**given, push_services="push.example.org,127.0.0.1:1"))
    assert environment.push_services == ("push.example.org", "127.0.0.1:1")


def test_the_origins_of_pages_come_from_the_environment_or_the_context() -> None:
    given = {"environment": "dev", "node_urls": "wss://one.example"}
    assert chosen(node(**given)).api.origins == ()
    environment = chosen(node(**given, origins="https://app.example.org,http://localhost:8000"))
    assert [str(origin) for origin in environment.api.origins] == ["https://app.example.org/", "http://localhost:8000/"]


@pytest.mark.parametrize("service", ["https://push.example.org", "push.example.org/", "*", "Push.example.org"])
def test_a_push_service_is_named_by_its_host_alone(service: str) -> None:
    with pytest.raises(ValidationError, match="push_services"):
        EnvironmentConfig.model_validate({**dict(PROD), "push_services": [service]})


@pytest.mark.parametrize(
    "origin", ["app.example.org", "https://app.example.org/path", "https://app.example.org?", "wss://app.example.org"]
)
def test_an_origin_is_a_scheme_and_a_host_alone(origin: str) -> None:
    with pytest.raises(ValidationError, match="origins"):
        ApiConfig.model_validate({**API, "origins": [origin]})


def test_a_stand_in_for_no_provider_is_refused() -> None:
    with pytest.raises(ValidationError, match="no provider has pigeon_url"):
        Stubs.model_validate({"pigeon_url": "https://127.0.0.1:1"})


def test_a_network_that_is_not_registered_is_refused() -> None:
    with pytest.raises(ValidationError, match="no network is called semaphore"):
        EnvironmentConfig.model_validate({**dict(PROD), "networks": ["statements", "semaphore"]})


def test_limits_are_of_networks_that_are_deployed() -> None:
    limit = {"count": 1, "window_seconds": 1, "cooldown_seconds": 0}
    with pytest.raises(ValidationError, match="limits of semaphore"):
        EnvironmentConfig.model_validate({**dict(PROD), "matching": {"limits": {"semaphore": limit}}})


@pytest.mark.parametrize(
    ("matching", "seconds"),
    [
        ({"limits": {"simplex": {"count": 30, "window_seconds": 60, "cooldown_seconds": 400}}}, 460),
        ({"limits": {"simplex": {"count": 30, "window_seconds": 60, "cooldown_seconds": 86_400}}}, 960),
        ({"subscription_cap_seconds": 301}, 361),
    ],
)
def test_a_limit_that_holds_pushes_back_for_longer_than_the_alarm_on_their_queue_allows_is_refused(
    matching: dict[str, Any], seconds: int
) -> None:
    context = {"networks": "simplex", "simplex": {"hosts": ["ntf.example.org"], "app": "first"}}
    simplex = dict(chosen(node(environment="prod", **context)))
    with pytest.raises(ValidationError, match=f"push_age_s has to be {seconds} at least, .* as simplex has"):
        EnvironmentConfig.model_validate({**simplex, "matching": matching})
    raised = {"matching": matching, "thresholds": {**dict(PROD.thresholds), "push_age_s": seconds}}
    EnvironmentConfig.model_validate({**simplex, **raised})
    EnvironmentConfig.model_validate({**dict(PROD), "matching": {"subscription_cap_seconds": 301}})  # none waits


def test_real_pushes_can_not_be_led_elsewhere_by_context() -> None:
    with pytest.raises(ValueError, match="apns_url would send the pushes of 'prod' elsewhere"):
        chosen(node(environment="prod", apns_url="https://example.org"))


@pytest.mark.parametrize("name", ["prod", "dev"])
def test_a_deployment_that_names_no_node_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' has no node to follow"):
        chosen(node(environment=name))


@pytest.mark.parametrize("urls", ["wss://one.example,wss://two.example", ["wss://one.example", "wss://two.example"]])
def test_the_nodes_to_follow_come_from_the_context(urls: str | list[str]) -> None:
    ingest = chosen(node(environment="prod", node_urls=urls)).ingest
    assert ingest
    assert [url.host for url in ingest.nodes[STATEMENTS]] == ["one.example", "two.example"]
    assert ingest.tasks == 2


OPTIONS = {STATEMENTS: "node_urls", XMTP: "xmtp_nodes"}
ADDRESSES = {"node_urls": "wss://one.example", "xmtp_nodes": "https://one.example:5556"}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_networks_that_the_context_chooses_need_nodes_and_no_other(name: str) -> None:
    option = OPTIONS[name]
    ingest = chosen(node(environment="prod", networks=name, **{option: ADDRESSES[option]})).ingest
    assert ingest
    assert ingest.nodes.keys() == {name}
    others = {other: url for other, url in ADDRESSES.items() if other != option}
    for networks in (name, ",".join(OPTIONS)):
        with pytest.raises(ValueError, match=f"'prod' has no node to follow.*{option}"):
            chosen(node(environment="prod", networks=networks, **others))


def test_ingest_is_deployed_if_there_is_a_network_to_follow() -> None:
    assert chosen(node(environment="prod", networks=ZULIP)).ingest is None
    followed = chosen(node(environment="prod", networks=f"{ZULIP},{STATEMENTS}", node_urls="wss://one.example"))
    assert followed.ingest
    assert followed.followed_networks == (STATEMENTS,)
    with pytest.raises(ValidationError, match="no network to follow"):
        EnvironmentConfig.model_validate(dict(PROD) | {"networks": (ZULIP,)})


@pytest.mark.parametrize("name", OPTIONS)
def test_the_networks_of_an_environment_need_nodes_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = OPTIONS[name]
    monkeypatch.setitem(ENVIRONMENTS, "prod", PROD.model_copy(update={"networks": (name,)}))
    assert chosen(node(environment="prod", **{option: ADDRESSES[option]})).networks == (name,)
    with pytest.raises(ValueError, match=f"'prod' has no node to follow.*{option}"):
        chosen(node(environment="prod", **{other: url for other, url in ADDRESSES.items() if other != option}))


def test_a_further_network_s_nodes_come_from_the_context_by_its_own_option(
    toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes("toy_nodes", r"https://toys\..+", ("https://toys.node.invalid",))
    monkeypatch.setattr(type(network(toy)), "needs", network(toy).needs._replace(nodes=nodes))
    with pytest.raises(ValueError, match='give it by CONTEXT="toy_nodes=…"'):
        chosen(node(environment="prod", networks=toy))
    with pytest.raises(ValidationError, match=r"toy_nodes: a node's address is such as https://toys\."):
        chosen(node(environment="prod", networks=toy, toy_nodes="https://one.example"))
    ingest = chosen(node(environment="prod", networks=toy, toy_nodes="https://toys.example")).ingest
    assert ingest
    assert [url.host for url in ingest.nodes[toy]] == ["toys.example"]


@pytest.mark.parametrize("as_text", [True, False], ids=["on the command line", "in cdk.json"])
def test_a_network_s_options_come_from_the_context_by_its_name(*, as_text: bool) -> None:
    options = {
        "domain": "notify.example.org",
        "relay_url": "https://relay.example.org",
        "relay_project_id": "12" * 16,
        "key_servers": ["keys.example.org"],
    }
    given = {"networks": WALLETCONNECT, "walletconnect_relays": "wss://relay.example.org"}
    with pytest.raises(ValidationError, match="options have to be given"):
        chosen(node(environment="prod", **given))
    found = chosen(node(environment="prod", walletconnect=json.dumps(options) if as_text else options, **given))
    assert json.loads(found.options_of(WALLETCONNECT) or "") == {**options, "private_key_servers": []}
    assert chosen(node(environment="prod", networks=ZULIP, walletconnect=options)).options == {}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"nodes": {"semaphore": ["https://one.example"]}}, "nodes of semaphore"),
        ({"nodes": {"toy": ["https://one.example"]}}, "nodes of toy"),
        ({"following": {"node_budgets": {"semaphore": BUDGET}}}, "node_budgets of semaphore"),
        ({"following": {"node_budgets": {"toy": BUDGET}}}, "node_budgets of toy"),
        ({"following": {"node_budgets": {"statements": BUDGET}}}, "node_budgets of statements"),
        ({"following": {"node_budgets": {"xmtp": {**BUDGET, "message_bytes": 0}}}}, "message_bytes"),
        ({"following": {"node_budgets": {"xmtp": {"message_bytes": 1}}}}, "bytes_per_second"),
    ],
)
@pytest.mark.usefixtures("toy")
def test_what_a_network_does_not_need_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Ingest.model_validate({**dict(PROD.ingest or {}), **changes})


@pytest.mark.parametrize(
    "url",
    [
        *("wss://one.example", "http://one.example", "https://one.example/path", "https://one.example/#part"),
        *("https://one.example/?key=word", "https://key@one.example"),
    ],
)
def test_a_node_of_xmtp_is_a_host_over_tls(url: str) -> None:
    with pytest.raises(ValidationError):
        chosen(node(environment="prod", node_urls="wss://one.example", xmtp_nodes=url))


@pytest.mark.parametrize("url", ["https://one.example", "ws://one.example"])
def test_a_node_that_is_no_websocket_over_tls_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"node_urls: a node's address is such as wss:|nodes\.statements"):
        chosen(node(environment="prod", node_urls=url))


@pytest.mark.parametrize(
    "url",
    [
        *("wss://user:word@one.example", "wss://key@one.example", "wss://one.example/?key=word"),
        *("wss://one.example/v3/0a1b2c3d4e5f60718293", "wss://one.example/AbCdEfGhIjKlMnOpQrStUv/rpc"),
    ],
)
def test_a_node_whose_address_holds_a_key_is_refused_for_the_task_shows_it(url: str) -> None:
    with pytest.raises(ValidationError, match="no key"):
        chosen(node(environment="prod", node_urls=url))


def test_a_path_that_says_which_network_is_no_key() -> None:
    assert chosen(node(environment="prod", node_urls="wss://one.example/paseo-people-next/rpc")).ingest


def test_the_domain_comes_from_the_context_with_its_certificate() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example", "domain": "push.example.org"}
    api = chosen(node(**given, certificate_arn=CERTIFICATE)).api
    assert (api.domain, api.certificate_arn) == ("push.example.org", CERTIFICATE)
    with pytest.raises(ValidationError, match="go together"):
        chosen(node(**given))


def test_the_domain_of_the_standalone_login_comes_by_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example", "alarm_email": "us@example.org"}
    assert chosen(node(**given, login_domain="push.example.org")).api.login_domain == "push.example.org"


@pytest.mark.parametrize("part", ["ingest", "pipeline"])
def test_what_is_built_for_arm64_is_not_deployed_on_the_host(part: str) -> None:
    with pytest.raises(ValidationError, match="for arm64 only"):
        EnvironmentConfig.model_validate({**dict(EMULATOR), part: getattr(PROD, part)})


def test_the_context_may_choose_the_region() -> None:
    given = {"environment": "dev", "node_urls": "wss://one.example"}
    assert chosen(App(context=given).node).region == "us-east-1"
    assert chosen(App(context={**given, "region": "eu-central-1"}).node).region == "eu-central-1"
    with pytest.raises(ValidationError, match="region"):
        chosen(App(context={**given, "region": "Frankfurt"}).node)


def test_the_limit_for_each_address_comes_from_the_environment_or_the_context() -> None:
    given = {"environment": "prod", "node_urls": "wss://one.example"}
    limited = chosen(node(**given, per_address="600")).api.per_address
    assert limited
    assert limited.requests_per_minute == 600
    assert chosen(node(**given, region="us-west-2", per_address="none")).api.per_address is None
    with pytest.raises(ValidationError, match="requests_per_minute"):
        chosen(node(**given, per_address="few"))


def test_the_certificate_has_to_be_of_the_api_s_region() -> None:
    elsewhere = CERTIFICATE.replace("us-east-1", "eu-central-1")
    with pytest.raises(ValidationError, match="one of us-east-1"):
        EnvironmentConfig.model_validate(
            {**dict(PROD), "api": {**API, "domain": "push.example.org", "certificate_arn": elsewhere}}
        )


def test_a_message_stays_invisible_for_six_timeouts_and_the_window() -> None:
    assert Consumer(size=SIZE, concurrency=2, receives=5, batch=100, window_s=1).visibility_s == 181


def test_a_lake_that_forgets_within_days_is_refused() -> None:
    with pytest.raises(ValidationError, match="lake_days"):
        PROD.model_validate({**dict(PROD), "lake_days": 6})


def test_with_the_pipeline_the_lake_keeps_every_snapshot_until_the_pipeline_removes_it() -> None:
    assert PROD.pipeline
    assert PROD.model_validate({**dict(PROD), "lake_days": 51}).lake_days == 51
    assert PROD.model_validate({**dict(PROD), "lake_days": 50, "pipeline": None}).lake_days == 50
    with pytest.raises(ValidationError, match="lake_days has to be more than the 50"):
        PROD.model_validate({**dict(PROD), "lake_days": 50})


def test_a_large_batch_needs_a_window() -> None:
    with pytest.raises(ValidationError, match="window"):
        Consumer(size=SIZE, concurrency=2, receives=5, batch=11)


def test_a_domain_needs_a_certificate() -> None:
    with pytest.raises(ValidationError, match="go together"):
        ApiConfig.model_validate({**API, "domain": "push.example.org"})


def test_unknown_configuration_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        PROD.model_validate({**dict(PROD), "memory": 1})


@pytest.mark.parametrize(
    ("trusted", "fault"),
    [
        ({"jwt_issuer": None, "jwt_audience": None}, "nobody's tokens would count"),
        ({"jwt_audience": None}, "go together"),
        ({"jwt_issuer": None, "jwt_audience": "clarion", "login_domain": "push.example.org"}, "go together"),
        ({"issuers": [JWKS, JWKS]}, "configured twice"),
        ({"issuers": [{**JWKS, "issuer": "polkadot-app"}]}, "configured twice"),
        ({"issuers": [JWKS], "login_domain": "login.example.org"}, "configured twice"),
        ({"issuers": [{**JWKS, "algorithms": ["HS256"]}]}, "algorithms"),
    ],
)
def test_whose_tokens_count_must_make_sense(trusted: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ApiConfig.model_validate({**API, **trusted})


@pytest.mark.parametrize(
    ("apps", "fault"),
    [
        ([], "at least 1"),
        ([ROBOT], "the first app needs the provider of each channel"),
        ([PROD.apps[0], {"name": "robot", "alert_title": "Robot"}], "go together"),
        ([PROD.apps[0], {**dict(PROD.apps[0]), "name": "robot", "providers": ["fcm"]}], "go together"),
        ([PROD.apps[0], PROD.apps[0]], "the same name"),
        ([PROD.apps[0], {**ROBOT, "apns_sandbox": True}], "needs a bundle_id"),
        ([PROD.apps[0], {**ROBOT, "name": "a robot"}], "pattern"),
    ],
)
def test_apps_must_make_sense(apps: list[Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        EnvironmentConfig.model_validate({**dict(PROD), "apps": apps})
