"""docs/examples/open_notification.py, and the test vector of docs/walletconnect.md, against what the worker sends."""

import json
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from clarion.networks.walletconnect.acts import LONG, Profile
from clarion.networks.walletconnect.commands import DappNotification, NotifyAccount, NotifyCommand
from clarion.networks.walletconnect.domains import public_keys
from clarion.networks.walletconnect.envelope import open_sealed, topic_of
from clarion.networks.walletconnect.projects import DappApp
from clarion.networks.walletconnect.subscriptions import NotifySubscription, NotifySubscriptionState, account_key
from walletconnect.recipients import recipient_of
from walletconnect.subscriber_messages import compose

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
EXAMPLE = EXAMPLES / "open_notification.py"
VECTOR: dict[str, Any] = json.loads((EXAMPLES / "notification.json").read_text())
KEYS = json.loads((Path(__file__).parents[1] / "data" / "walletconnect.json").read_text())["keys"]
APP, ACCOUNT, SERVER = "app.example.org", "eip155:1:0x931ECeAcDaEE71B80b891a7967d7674e0871fCCc", "notify.example.org"
KEY = sha256(b"the key of a test vector").digest()
SUBSCRIPTION = str(UUID(int=7))
SENT_AT = 4_000_000_000_000
"""UNIX milliseconds: in 2096, so that it does not expire before."""
NOTIFICATION = DappNotification(
    id="block-21000000",
    type="f173f231-a45c-4dc0-aa5d-956eb04f7360",
    title="Your swap is done",
    body="You have got 1.2 ETH",
    icon="https://app.example.org/swap.png",
    url="https://app.example.org/swaps/17",
)
DAPP = DappApp(
    APP,
    project_id="ab" * 16,
    subscribe_key=bytes.fromhex(KEYS["attacker"]["ed25519_seed"]),
    authentication_key=bytes.fromhex(KEYS["dapp"]["ed25519_seed"]),
)
GIVEN = {
    "symKey": KEY.hex(),
    "app": APP,
    "account": ACCOUNT,
    "authenticationKey": public_keys(DAPP).authentication.hex(),
}
"""What the example is given beside the push, in its order."""


def message(profile: Profile = "shipped") -> str:
    """As the worker composes it for the subscriber of the vector."""
    account = NotifyAccount(account=ACCOUNT, subscription_id=SUBSCRIPTION, number=1)
    command = NotifyCommand(
        project_id=DAPP.project_id, app=APP, notification=NOTIFICATION, accounts=(account,), issued_at=SENT_AT
    )
    row = NotifySubscription(
        APP,
        account_key(ACCOUNT),
        subscription_id=SUBSCRIPTION,
        account_spelled=ACCOUNT,
        sym_key=KEY,
        topic=topic_of(KEY),
        state=NotifySubscriptionState.ACTIVE.value,
        hash="00" * 32,
        profile=profile,
    )
    return compose(command, row, recipient_of(DAPP, row), SERVER).sealed.message


def vector() -> dict[str, Any]:
    """What the file has to hold."""
    sealed = message()
    request = json.loads(open_sealed(sealed, KEY))
    push = {"tag": 4002, "topic": topic_of(KEY), "message": sealed}
    return {
        **GIVEN,
        "push": push,
        "hash": sha256(sealed.encode()).hexdigest(),
        "request": request,
        "msg": opened(push),
    }


def opened(push: dict[str, Any], **changes: str) -> Any:
    """What the example prints. Raises `CalledProcessError` if it fails."""
    command = [sys.executable, str(EXAMPLE), json.dumps(push), *(GIVEN | changes).values()]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def test_the_vector_is_what_the_worker_sends_and_the_example_opens() -> None:
    assert vector() == VECTOR


@pytest.mark.skipif(shutil.which("jq") is None, reason="the page's command needs jq")
def test_the_command_of_the_page_opens_the_vector() -> None:
    section = (ROOT / "docs" / "walletconnect.md").read_text().partition("\n### Open it\n")[2].partition("\n### ")[0]
    [script] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["/bin/bash", "-euo", "pipefail", "-c", script]
    variables = os.environ | {"PATH": path}
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout) == VECTOR["msg"]


def test_the_example_opens_a_notification_of_the_older_protocol() -> None:
    shown = opened(VECTOR["push"] | {"message": message("document")})
    assert shown == {name: value for name, value in VECTOR["msg"].items() if name in shown}
    assert shown["title"] == NOTIFICATION.title


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("symKey", "00" * 32),
        ("app", "other.example.org"),
        ("account", "eip155:10:0x931ECeAcDaEE71B80b891a7967d7674e0871fCCc"),
        ("authenticationKey", KEYS["attacker"]["public_key"]),
    ],
)
def test_the_example_refuses_what_is_for_another_or_signed_by_another(name: str, value: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        opened(VECTOR["push"], **{name: value})


def test_the_example_refuses_a_notification_that_has_expired() -> None:
    late = "import time; time.time = lambda: {}; import runpy; runpy.run_path({!r}, run_name='__main__')"
    code = late.format(SENT_AT // 1000 + LONG, str(EXAMPLE))
    command = [sys.executable, "-c", code, json.dumps(VECTOR["push"]), *GIVEN.values()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "it has expired" in ran.stderr
