from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest
import sr25519

from api.sign_in import CHALLENGE_SECONDS
from api.worker import ApiWorker, Login
from clarion.secrets import Secret, SharedSecret

type Keypair = tuple[bytes, bytes]
DOMAIN = "push.example.org"


@pytest.fixture
def keypair() -> Keypair:
    pair: Keypair = sr25519.pair_from_seed(uuid4().bytes * 2)
    return pair


@pytest.fixture
def nobody(new_client: Callable[[], Any]) -> Any:
    """A client that has no token yet."""
    client = new_client()
    client.headers = {}
    return client


def ask(nobody: Any, keypair: Keypair) -> dict[str, Any]:
    answer = nobody("POST", "/v1/auth/challenges", {"client_id": keypair[0].hex()})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def signed(keypair: Keypair, challenge: dict[str, Any], **changes: str) -> dict[str, str]:
    signature = sr25519.sign(keypair, challenge["message"].encode())
    body = {"client_id": keypair[0].hex(), "challenge": challenge["challenge"], "signature": signature.hex()}
    return body | changes


def test_who_signs_a_challenge_gets_a_token_that_works(nobody: Any, keypair: Keypair) -> None:
    answer = nobody("POST", "/v1/auth/tokens", signed(keypair, ask(nobody, keypair)))
    assert (answer.status, answer.json["token_type"], answer.json["expires_in"]) == (201, "Bearer", 3600)
    nobody.headers = {"authorization": f"Bearer {answer.json['token']}"}
    assert nobody("POST", "/v1/subscriptions", {"platform": "fcm", "token": uuid4().hex}).status == 201


def test_the_message_is_the_documented_one_byte_for_byte(nobody: Any, keypair: Keypair) -> None:
    challenge = ask(nobody, keypair)
    assert challenge["message"] == (
        f"<Bytes>clarion login v1\ndomain: {DOMAIN}\nclient: {keypair[0].hex()}\nchallenge: {challenge['challenge']}</Bytes>"
    )


def test_a_challenge_is_good_for_one_token(nobody: Any, keypair: Keypair) -> None:
    challenge = ask(nobody, keypair)
    assert nobody("POST", "/v1/auth/tokens", signed(keypair, challenge)).status == 201
    again = nobody("POST", "/v1/auth/tokens", signed(keypair, challenge))
    assert (again.status, again.json["detail"]) == (401, "the challenge has been used")


def test_a_bad_signature_does_not_use_a_challenge_up(nobody: Any, keypair: Keypair) -> None:
    challenge = ask(nobody, keypair)
    assert nobody("POST", "/v1/auth/tokens", signed(keypair, challenge, signature="01" * 64)).status == 401
    assert nobody("POST", "/v1/auth/tokens", signed(keypair, challenge)).status == 201


def test_a_challenge_is_short_lived(nobody: Any, keypair: Keypair, worker: ApiWorker) -> None:
    challenge = ask(nobody, keypair)
    nobody.worker = replace(worker, now=lambda: worker.now() + CHALLENGE_SECONDS * 1000)
    late = nobody("POST", "/v1/auth/tokens", signed(keypair, challenge))
    assert (late.status, late.json["detail"]) == (401, "the challenge has expired")


def test_a_challenge_is_for_one_client(nobody: Any, keypair: Keypair) -> None:
    other: Keypair = sr25519.pair_from_seed(b"o" * 32)
    body = signed(other, ask(nobody, keypair))
    refused = nobody("POST", "/v1/auth/tokens", body)
    assert (refused.status, refused.json["type"]) == (401, "urn:clarion:problem:login-failed")


@pytest.mark.parametrize("challenge", ["", "A" * 75, "A" * 74, "not base64!", "A" * 200, "Ä"])
def test_a_challenge_must_be_one_of_ours(nobody: Any, keypair: Keypair, challenge: str) -> None:
    body = {"client_id": keypair[0].hex(), "challenge": challenge, "signature": "00" * 64}
    assert nobody("POST", "/v1/auth/tokens", body).status == 401


def test_a_signature_for_another_service_does_not_count(nobody: Any, keypair: Keypair) -> None:
    challenge = ask(nobody, keypair)
    elsewhere = challenge | {"message": challenge["message"].replace(DOMAIN, "evil.example")}
    assert nobody("POST", "/v1/auth/tokens", signed(keypair, elsewhere)).status == 401


def test_nobody_signs_in_as_the_identity_point(nobody: Any) -> None:
    nobodys: Keypair = (bytes(32), b"")
    challenge = ask(nobody, nobodys)
    body = {"client_id": "00" * 32, "challenge": challenge["challenge"], "signature": "00" * 63 + "80"}
    assert nobody("POST", "/v1/auth/tokens", body).status == 401


def test_a_login_secret_that_is_none_is_a_problem(nobody: Any, keypair: Keypair, worker: ApiWorker) -> None:
    secrets = boto3.client("secretsmanager")
    secrets.create_secret(Name="no-login", SecretString="{}")
    nobody.worker = replace(worker, login=Login(DOMAIN, Secret(secrets, "no-login", SharedSecret)))
    answer = nobody("POST", "/v1/auth/challenges", {"client_id": keypair[0].hex()})
    assert (answer.status, answer.json["type"]) == (503, "urn:clarion:problem:unavailable")


@pytest.mark.parametrize(
    ("path", "signed"),
    [("/v1/auth/challenges", {}), ("/v1/auth/tokens", {"challenge": "x", "signature": "00" * 64})],
)
def test_without_a_standalone_login_there_is_nothing_to_sign_in_to(
    nobody: Any, keypair: Keypair, worker: ApiWorker, path: str, signed: dict[str, str]
) -> None:
    nobody.worker = replace(worker, login=None)
    answer = nobody("POST", path, {"client_id": keypair[0].hex()} | signed)
    assert (answer.status, answer.json["type"]) == (404, "urn:clarion:problem:login-off")
