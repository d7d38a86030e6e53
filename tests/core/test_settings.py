import pytest
from pydantic import ValidationError

from clarion.channels import CHANNELS, Channel
from clarion.settings import PushQueues

URLS = {channel: f"https://queue/{channel}" for channel in CHANNELS}
ENVIRONMENT = {f"CLARION_{channel.upper()}_QUEUE_URL": url for channel, url in URLS.items()}


def test_each_channel_has_a_queue_of_its_own_in_the_settings() -> None:
    assert PushQueues.from_environment(ENVIRONMENT).push_queues == URLS


@pytest.mark.parametrize("missing", CHANNELS)
def test_a_channel_without_a_queue_is_not_deployed(missing: Channel) -> None:
    environment = {name: url for name, url in ENVIRONMENT.items() if missing.upper() not in name}
    assert PushQueues.from_environment(environment).push_queues.keys() == CHANNELS.keys() - {missing}


def test_some_channel_is_deployed() -> None:
    with pytest.raises(ValidationError, match="missing: apns_queue_url, voip_queue_url"):
        PushQueues.from_environment({})


def test_unknown_settings_are_refused_beside_the_queues() -> None:
    with pytest.raises(ValidationError, match="stray"):
        PushQueues.from_environment({**ENVIRONMENT, "CLARION_STRAY": "1"})
