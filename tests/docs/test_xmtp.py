"""The test vector of docs/xmtp.md, against the id that Clarion derives."""

import re
from pathlib import Path

from clarion.networks.xmtp.installations import subscription_id_of

PAGE = (Path(__file__).parents[2] / "docs" / "xmtp.md").read_text().partition("A test vector:")[2]
SHOWN = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|$", PAGE.partition("\n#")[0], re.MULTILINE))


def test_the_vector_is_the_id_that_clarion_derives() -> None:
    derived = subscription_id_of(bytes.fromhex(SHOWN["client id"]), SHOWN["`installationId`"])
    assert derived == SHOWN["`subscription_id`"]
