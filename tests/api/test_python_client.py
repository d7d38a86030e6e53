"""The client for Python against the API itself, over HTTP: both of its clients play the same scenario."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import boto3
import httpx
import pytest
import sr25519

from api.app import handle
from api.authorization import Authorizer
from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion_client import AsyncClient, Bearer, Client, Problem, SignIn, operations, rule
from clarion_client.operations import Operation
from clarion_client.sealed import DeviceKey
from local.gateway import Gateway
from tests.api.conftest import DOMAIN
from tests.api.proving import new_token
from tests.codes import code_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

README = Path(__file__).parents[2] / "clients" / "python" / "README.md"
PATIENCE = 60.0
"""Seconds that an answer is waited for: on a busy machine it may be late."""
RULES = [rule(bytes([number]) * 32, b"t" * 32) for number in range(5)]

type Run = Callable[[Operation[Any]], Any]


@pytest.fixture(scope="module")
def gateway(authorizer: Authorizer, pushing: Callable[..., ApiWorker]) -> Iterator[Gateway]:
    """A deployment that takes direct pushes, and whose lists come in pages of two rules."""
    worker = pushing()
    worker = replace(worker, settings=worker.settings.model_copy(update={"rules_per_page": 2}))
    with Gateway(authorizer, lambda event: handle(event, cast("LambdaContext", None), worker)) as running:
        yield running


def new_auth() -> SignIn:
    keypair = sr25519.pair_from_seed(uuid4().bytes * 2)
    return SignIn(keypair[0], DOMAIN, lambda text: bytes(sr25519.sign(keypair, text)))


def blocking(url: str, auth: httpx.Auth) -> Run:
    def run(operation: Operation[Any]) -> Any:
        with httpx.Client(base_url=url, auth=auth, timeout=PATIENCE) as http:
            return Client(http).run(operation)

    return run


def asynchronous(url: str, auth: httpx.Auth) -> Run:
    async def run(operation: Operation[Any]) -> Any:
        async with httpx.AsyncClient(base_url=url, auth=auth, timeout=PATIENCE) as http:
            return await AsyncClient(http).run(operation)

    return lambda operation: asyncio.run(run(operation))


@pytest.fixture(params=[blocking, asynchronous])
def new_run(request: pytest.FixtureRequest, gateway: Gateway) -> Callable[[httpx.Auth], Run]:
    return lambda auth: request.param(gateway.url, auth)


@pytest.fixture
def run(new_run: Callable[[httpx.Auth], Run]) -> Run:
    """Of a client that has never been here."""
    return new_run(new_auth())


def pushed_code(worker: ApiWorker) -> str:
    """Of the one push that is there."""
    sqs, url = boto3.client("sqs"), worker.settings.push_queues[Channel.APNS]
    [message] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return code_of(PushMessage.model_validate_json(message["Body"]))


def test_a_subscription_is_made_listed_changed_and_removed(run: Run) -> None:
    def scenario() -> Operation[None]:
        token, key = new_token(), DeviceKey.generate().public
        registered = yield from operations.register_subscription("apns", token, wake_every_minutes=30)
        name = registered["subscription_id"]
        assert registered["status"] == "active"
        assert (yield from operations.change_subscription(name, device_key=key))["device_key"] == key
        changed = yield from operations.change_subscription(name, wake_every_minutes=None)
        assert changed == (yield from operations.get_subscription(name))
        assert changed == {
            "subscription_id": name,
            "notificationType": "apns",
            "token": token,
            "device_key": key,
            "status": "active",
        }
        assert (yield from operations.replace_token(name, other := new_token()))["status"] == "active"
        assert (yield from operations.list_subscriptions()) == [{**changed, "token": other, "rules": []}]
        assert (yield from operations.list_deliveries(name))["deliveries"] == []
        yield from operations.remove_subscriptions(name)
        assert (yield from operations.list_subscriptions()) == []

    run(scenario())


def test_rules_are_changed_and_listed_over_pages(run: Run) -> None:
    def scenario() -> Operation[None]:
        names = []
        for _ in range(2):
            names.append((yield from operations.register_subscription("fcm", uuid4().hex))["subscription_id"])
            yield from operations.replace_rules(names[-1], RULES[:4])
        assert (yield from operations.add_rules(names[0], RULES[3:])) == {"added": 1, "total_rules": 5}
        assert (yield from operations.remove_rules(names[0], RULES[:1])) == {"removed": 1, "total_rules": 4}
        listed = yield from operations.list_subscriptions()
        by_name = {one["subscription_id"]: sorted(one["rules"], key=str) for one in listed}
        assert len(listed) == 2
        assert by_name == {names[0]: RULES[1:], names[1]: RULES[:4]}

    run(scenario())


def test_a_token_moves_by_proof(new_run: Callable[[httpx.Auth], Run], worker: ApiWorker) -> None:
    token, owner, other = new_token(), new_run(new_auth()), new_run(new_auth())
    first = owner(operations.register_subscription("apns", token))["subscription_id"]
    second = other(operations.register_subscription("apns", token))
    assert second["status"] == "pending"
    pushed_code(worker)
    other(operations.request_code(second["subscription_id"]))
    state = other(operations.get_subscription(second["subscription_id"]))
    assert state["proof"].keys() == {"expires_at"}
    with pytest.raises(Problem) as wrong:
        other(operations.prove_token(second["subscription_id"], "A" * 43))
    assert wrong.value.kind == "wrong-code"
    assert other(operations.prove_token(second["subscription_id"], pushed_code(worker)))["status"] == "active"
    assert owner(operations.get_subscription(first))["statusReason"] == "replaced"


def test_a_direct_push_has_a_result(run: Run) -> None:
    result = run(operations.push_directly(new_token(), "0" * 32, b"hello"))
    assert (result["platform"], result["success"]) == ("ios", True)


def test_a_token_registered_twice_is_a_problem_that_names_its_subscription(run: Run) -> None:
    token = new_token()
    name = run(operations.register_subscription("apns", token))["subscription_id"]
    with pytest.raises(Problem) as taken:
        run(operations.register_subscription("apns", token))
    assert (taken.value.kind, taken.value.subscription_id) == ("token-taken", name)


def test_a_broken_rule_is_a_problem_that_names_the_field(run: Run) -> None:
    name = run(operations.register_subscription("apns", new_token()))["subscription_id"]
    with pytest.raises(Problem) as invalid:
        run(operations.add_rules(name, [{"sender_pubkey": "ab", "topic": "01" * 32}]))
    assert (invalid.value.kind, [error["field"] for error in invalid.value.errors]) == (
        "invalid",
        ["rules[0].sender_pubkey"],
    )


@dataclass
class Issuer:
    """Of tokens that are made by the given function, which is called for each."""

    tokens: Iterator[str]
    asked: int = 0

    def __call__(self) -> str:
        self.asked += 1
        return next(self.tokens)


def test_a_token_that_is_not_good_any_more_is_replaced(
    new_run: Callable[[httpx.Auth], Run], new_token: Callable[..., str]
) -> None:
    issuer = Issuer(iter([new_token(exp=1), new_token()]))
    run = new_run(Bearer(issuer))
    for _ in range(2):
        run(operations.list_subscriptions())
    assert issuer.asked == 2


def test_a_login_is_renewed(new_run: Callable[[httpx.Auth], Run]) -> None:
    auth = new_auth()
    run = new_run(auth)
    run(operations.list_subscriptions())
    auth.token = "not good any more"
    assert run(operations.list_subscriptions()) == []


def test_tokens_that_are_never_good_are_a_problem(
    new_run: Callable[[httpx.Auth], Run], new_token: Callable[..., str]
) -> None:
    issuer = Issuer(iter(new_token(aud=None) for _ in range(9)))
    with pytest.raises(Problem) as refused:
        new_run(Bearer(issuer))(operations.list_subscriptions())
    assert (refused.value.kind, issuer.asked) == ("unauthenticated", 2)


def test_a_login_for_another_domain_is_a_problem(new_run: Callable[[httpx.Auth], Run]) -> None:
    auth = new_auth()
    auth.domain = "elsewhere.example.org"
    with pytest.raises(Problem) as refused:
        new_run(auth)(operations.list_subscriptions())
    assert refused.value.kind == "login-failed"


def test_neither_login_nor_issuer_shows_its_token() -> None:
    for auth in (new_auth(), Bearer(lambda: "")):
        auth.token = "a secret"
        assert "a secret" not in repr(auth)


def test_the_readmes_first_push_runs_and_is_short(gateway: Gateway) -> None:
    program, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    command = [sys.executable, "-c", program, gateway.url, DOMAIN, uuid4().hex * 2, uuid4().hex]
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        assert ran.stdout == "active\n"
    assert len(program.splitlines()) <= 20
