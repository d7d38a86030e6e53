from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clarion.networks import XMTP
from clarion.networks.xmtp.rules import key_of
from clarion.tables import RuleRow, rule_key
from ingest.settings import IngestSettings
from local.tls import Localhost, issue
from tests.ingest.conftest import MakeSettings
from tests.ingest.xmtp.nodes import GrpcNode, taken_ns

if TYPE_CHECKING:
    from tests.ingest.xmtp.nodes import BareNode

TOPIC = "/xmtp/mls/1/g-aa/proto"

type MakeXmtpSettings = Callable[..., IngestSettings]


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Localhost:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def certificate(localhost: Localhost) -> Path:
    return localhost.certificate_file


@pytest.fixture
async def xmtp_node(certificate: Path) -> AsyncIterator[GrpcNode]:
    async with GrpcNode(certificate) as honest:
        yield honest


@pytest.fixture
def xmtp_settings(make_settings: MakeSettings, localhost: Localhost) -> MakeXmtpSettings:
    def make(*nodes: "GrpcNode | BareNode", **others: object) -> IngestSettings:
        given = {
            "networks": (XMTP,),
            "nodes": {XMTP: [node.url for node in nodes]},
            "ca_file": str(localhost.ca_file),
        }
        return make_settings(**given | others)

    return make


@pytest.fixture
def topic_rule(tables: None) -> None:
    """A rule that each envelope of `TOPIC` matches."""
    key = key_of(TOPIC)
    RuleRow("s", rule_key(1, key), key=key).save()


@pytest.fixture
def true_pauses() -> None:
    """Whoever is lost is followed again after as long as in production."""


@pytest.fixture(autouse=True)
def impatience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is lost is followed again within moments, unless the test asks for `true_pauses`."""
    if "true_pauses" in request.fixturenames:
        return
    monkeypatch.setattr("ingest.sources.following.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("ingest.sources.following.LONGEST_PAUSE", 0.05)
    monkeypatch.setattr("ingest.sources.following.FAULTY_PAUSE", 0.05)
    monkeypatch.setattr("ingest.sources.xmtp.source._CHECK_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def now() -> None:
    """What a test's nodes show is new."""
    taken_ns.cache_clear()
