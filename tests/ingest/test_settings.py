import pytest
from pydantic import ValidationError

from ingest.settings import FirstReplay, IngestSettings

ENVIRONMENT = {
    "CLARION_NODE_URLS": "wss://one.example",
    "CLARION_ENVELOPES_QUEUE_URL": "https://queue.example",
    "CLARION_OVERSIZE_BUCKET": "bucket",
    "CLARION_EVENTS_STREAM": "events",
}


@pytest.mark.parametrize("urls", ["wss://a.example, ws://b.example:9944", '["wss://a.example","ws://b.example:9944"]'])
def test_node_urls_are_a_comma_separated_or_a_json_list(urls: str) -> None:
    settings = IngestSettings.from_environment(ENVIRONMENT | {"CLARION_NODE_URLS": urls})
    assert settings.node_urls == ("wss://a.example", "ws://b.example:9944")


def test_what_stands_before_the_first_start_is_recorded_unless_asked_otherwise() -> None:
    assert IngestSettings.from_environment(ENVIRONMENT).first_replay is FirstReplay.RECORD
    asked = IngestSettings.from_environment(ENVIRONMENT | {"CLARION_FIRST_REPLAY": "handle"})
    assert asked.first_replay is FirstReplay.HANDLE


@pytest.mark.parametrize("urls", ["", "http://a.example", "[]", "[1]", "[", "{}"])
def test_a_node_url_that_is_no_websocket_stops_the_start(urls: str) -> None:
    with pytest.raises(ValidationError):
        IngestSettings.from_environment(ENVIRONMENT | {"CLARION_NODE_URLS": urls})
