from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from local.provider import ReceivedPush
from local.run import headline

TOKEN = "ab" * 32
PUSH = ReceivedPush(
    number=0, at=0, token=TOKEN, headers={}, payload={"aps": {}}, status=200, reason=None, push_id="an-id"
)


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({}, "accepted: push to "),
        ({"headers": {"apns-push-type": "voip"}}, "accepted: voip to "),
        ({"status": 410, "reason": "Unregistered"}, "refused as Unregistered: push to "),
    ],
)
def test_a_push_is_shown_with_its_kind_and_the_digest_of_its_token(changes: dict[str, Any], begins: str) -> None:
    assert headline(replace(PUSH, **changes)) == begins + sha256(TOKEN.encode()).hexdigest()[:8]
