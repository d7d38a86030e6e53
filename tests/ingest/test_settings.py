import pytest
from pydantic import ValidationError

from ingest.settings import FirstReplay, IngestSettings

ENVIRONMENT = {
    "CLARION_NODE_URLS": "wss://one.example",
    "CLARION_ENVELOPES_QUEUE_URL": "https://queue.example",
    "CLARION_OVERSIZE_BUCKET": "bucket",
    "CLARION_EVENTS_STREAM": "events",
    "CLARION_LATE_EVENTS_QUEUE_URL": "late-events",
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


def test_nodes_are_needed_of_the_networks_that_are_followed_alone() -> None:
    others = {name: value for name, value in ENVIRONMENT.items() if name != "CLARION_NODE_URLS"}
    xmtp = {"CLARION_NETWORKS": "xmtp", "CLARION_XMTP_NODES": '["https://one.example:5556", "https://two.example"]'}
    settings = IngestSettings.from_environment(others | xmtp)
    assert settings.xmtp_nodes == ("https://one.example:5556", "https://two.example")
    for wanting in (
        others,
        others | {"CLARION_NETWORKS": "xmtp"},
        ENVIRONMENT | {"CLARION_NETWORKS": "statements,xmtp"},
    ):
        with pytest.raises(ValidationError, match="no node to follow"):
            IngestSettings.from_environment(wanting)


def test_an_envelope_of_xmtp_may_be_twice_as_large_as_its_network_lets_a_message_be() -> None:
    assert 2_000_000 < IngestSettings.from_environment(ENVIRONMENT).xmtp_message_bytes < 2_100_000


def test_all_networks_together_have_no_more_nodes_than_shares_there_are() -> None:
    nodes = {
        "CLARION_NETWORKS": "statements,xmtp",
        "CLARION_NODE_URLS": ",".join(["wss://one.example"] * 32),
        "CLARION_XMTP_NODES": ",".join(["https://one.example"] * 31),
    }
    assert IngestSettings.from_environment(ENVIRONMENT | nodes)
    with pytest.raises(ValidationError, match="more than 63 nodes"):
        IngestSettings.from_environment(
            ENVIRONMENT | nodes | {"CLARION_XMTP_NODES": ",".join(["https://one.example"] * 32)}
        )


@pytest.mark.parametrize(
    "url", ["http://one.example", "https://one.example/path", "https://key@one.example", "one.example:5556"]
)
def test_a_node_of_xmtp_that_is_no_host_over_tls_stops_the_start(url: str) -> None:
    with pytest.raises(ValidationError, match="xmtp_nodes"):
        IngestSettings.from_environment(ENVIRONMENT | {"CLARION_XMTP_NODES": url})
