import json

import pytest
from pydantic import ValidationError

from clarion.decisions import Environment
from clarion.providers import apns, fcm
from clarion.providers.apps import AppSettings
from dispatch.settings import DispatchSettings

ENVIRONMENT = {
    "CLARION_TABLE_PREFIX": "clarion-test-",
    "CLARION_QUEUE_URL": "https://queue",
    "CLARION_CHANNEL": "apns",
    "CLARION_EVENTS_STREAM": "events",
    "CLARION_LATE_EVENTS_QUEUE_URL": "late-events",
    "CLARION_CLEANUP_QUEUE_URL": "https://cleanup",
    "CLARION_PROVIDER_SECRET_ID": "apns",
    "CLARION_BUNDLE_ID": "io.pcf.polkadotapp",
}


def test_one_app_needs_no_more_than_the_contract_names() -> None:
    settings = DispatchSettings.from_environment(ENVIRONMENT)

    (app,) = settings.all_apps
    assert (app.name, app.bundle_id, app.secret_id) == ("first", "io.pcf.polkadotapp", "apns")
    assert settings.apns_url == apns.URLS[Environment.PRODUCTION]
    assert settings.apns_sandbox_url == apns.URLS[Environment.SANDBOX]
    assert settings.fcm_url == fcm.PRODUCTION


def test_further_apps_come_after_the_first() -> None:
    further = [{"name": "second", "bundle_id": "io.pcf.second", "secret_id": "second", "sandbox_secret_id": "dev"}]

    settings = DispatchSettings.from_environment(ENVIRONMENT | {"CLARION_APPS": json.dumps(further)})

    assert [app.name for app in settings.all_apps] == ["first", "second"]


@pytest.mark.parametrize(
    "apps", ["second", "{}", '[{"name": "second"}]', '[{"name": "a", "secret_id": "b", "key": 1}]']
)
def test_apps_that_are_not_described_as_they_should_be_stop_the_start(apps: str) -> None:
    with pytest.raises(ValidationError):
        DispatchSettings.from_environment(ENVIRONMENT | {"CLARION_APPS": apps})


@pytest.mark.parametrize("title", ["", "x" * 201, "x" * 5_000, "\ud800"])
def test_a_title_that_no_push_could_carry_stops_the_start(title: str) -> None:
    with pytest.raises(ValidationError, match="alert_title"):
        DispatchSettings.from_environment(ENVIRONMENT | {"CLARION_ALERT_TITLE": title})
    with pytest.raises(ValidationError):
        AppSettings(name="second", secret_id="second", alert_title=title)


def test_a_webhook_without_its_url_stops_the_start() -> None:
    environment = ENVIRONMENT | {"CLARION_CHANNEL": "webhook"}
    with pytest.raises(ValidationError, match="webhook_url"):
        DispatchSettings.from_environment(environment)
    url = "https://push.example.org/take"
    assert DispatchSettings.from_environment(environment | {"CLARION_WEBHOOK_URL": url}).webhook_url == url


def test_a_webhook_with_a_password_stops_the_start_and_is_not_shown() -> None:
    environment = ENVIRONMENT | {"CLARION_WEBHOOK_URL": "https://me:secret@push.example.org/"}
    with pytest.raises(ValidationError, match="webhook_url") as refused:
        DispatchSettings.from_environment(environment)
    assert "secret" not in str(refused.value)


def test_two_apps_of_one_name_stop_the_start() -> None:
    apps = json.dumps([{"name": "first", "bundle_id": "io.pcf.second", "secret_id": "second"}])

    with pytest.raises(ValidationError, match="name"):
        DispatchSettings.from_environment(ENVIRONMENT | {"CLARION_APPS": apps})
