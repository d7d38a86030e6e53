from typing import Any

import pytest
from aws_cdk import App
from constructs import Node
from pydantic import ValidationError

from infra.config import Api, Consumer, Environment, Size
from infra.environments import ENVIRONMENTS, PROD, chosen

SIZE = Size(memory_mb=512, timeout_s=30)
API = dict(PROD.api)
JWKS = {
    "issuer": "https://login.example.org",
    "audience": "clarion",
    "algorithms": ["ES256"],
    "jwks_url": "https://login.example.org/keys.json",
}


def node(**context: str) -> Node:
    return App(context=context).node


def test_each_environment_has_a_stage_of_its_own() -> None:
    assert len({environment.stage for environment in ENVIRONMENTS.values()}) == len(ENVIRONMENTS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_valid(name: str) -> None:
    assert chosen(node(environment=name)) == ENVIRONMENTS[name]


def test_an_unknown_environment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'staging', not one of prod, dev, emulator"):
        chosen(node(environment="staging"))


def test_no_environment_is_the_default() -> None:
    with pytest.raises(ValueError, match="None"):
        chosen(node())


def test_the_emulator_takes_stand_ins_from_the_context() -> None:
    environment = chosen(node(environment="emulator", apns_url="https://127.0.0.1:2197"))
    assert str(environment.providers.apns_url) == "https://127.0.0.1:2197/"


def test_real_pushes_can_not_be_led_elsewhere_by_context() -> None:
    with pytest.raises(ValueError, match="apns_url would send the pushes of 'prod' elsewhere"):
        chosen(node(environment="prod", apns_url="https://example.org"))


def test_a_message_stays_invisible_for_six_timeouts_and_the_window() -> None:
    assert Consumer(size=SIZE, concurrency=2, receives=5, batch=100, window_s=1).visibility_s == 181


def test_a_large_batch_needs_a_window() -> None:
    with pytest.raises(ValidationError, match="window"):
        Consumer(size=SIZE, concurrency=2, receives=5, batch=11)


def test_a_domain_needs_a_certificate() -> None:
    with pytest.raises(ValidationError, match="go together"):
        Api.model_validate({**API, "domain": "push.example.org"})


def test_unknown_configuration_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        PROD.model_validate({**dict(PROD), "memory": 1})


@pytest.mark.parametrize(
    ("trusted", "fault"),
    [
        ({"jwt_issuer": None}, "nobody's tokens would count"),
        ({"jwt_issuer": None, "jwt_audience": "clarion", "login_domain": "push.example.org"}, "of no use"),
        ({"issuers": [JWKS, JWKS]}, "configured twice"),
        ({"issuers": [{**JWKS, "issuer": "polkadot-app"}]}, "configured twice"),
        ({"issuers": [{**JWKS, "algorithms": ["HS256"]}]}, "algorithms"),
    ],
)
def test_whose_tokens_count_must_make_sense(trusted: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Api.model_validate({**API, **trusted})


@pytest.mark.parametrize(
    ("apps", "fault"),
    [
        ([], "at least 1"),
        ([{"name": "robot", "alert_title": "Robot"}], "the first app needs both providers"),
        ([PROD.apps[0], PROD.apps[0]], "the same name"),
        ([PROD.apps[0], {"name": "robot", "alert_title": "Robot", "apns_sandbox": True}], "needs a bundle_id"),
        ([PROD.apps[0], {"name": "a robot", "alert_title": "Robot"}], "pattern"),
    ],
)
def test_apps_must_make_sense(apps: list[Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Environment.model_validate({**dict(PROD), "apps": apps})
