import hmac
import importlib
import json
import socket
import struct
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import jwt
import pytest
import sr25519
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from pydantic import ValidationError

from api import jwks
from api.authorization import Authorizer
from api.settings import AuthorizerSettings
from infra.environments import PROD
from tests.standins import counted_seconds

NOW = int(time.time())
"""When the tests are collected: they may run an hour later."""
DAY = 86_400
CLIENT = sr25519.pair_from_seed(b"s" * 32)[0].hex()


def context(authorizer: Authorizer, header: str | None) -> dict[str, str]:
    answer = authorizer({"headers": {} if header is None else {"authorization": header}})
    assert answer["isAuthorized"] is True
    return dict(answer["context"])


@pytest.mark.parametrize("subject", [CLIENT, f"0x{CLIENT}", CLIENT.upper()])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_token_of_the_existing_solution_says_who_the_client_is(
    authorizer: Authorizer, new_token: Callable[..., str], subject: str, scheme: str
) -> None:
    assert context(authorizer, f"{scheme} {new_token(sub=subject)}") == {"client_id": CLIENT}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"exp": NOW - 60}, "expired"),
        ({"iat": NOW + DAY}, "from the future"),
        ({"nbf": NOW + DAY}, "from the future"),
        ({"aud": "elsewhere"}, "another service"),
        ({"aud": None}, "claims"),
        ({"exp": NOW + 2 * DAY}, "longer"),
        ({"iat": NOW - DAY, "exp": NOW + DAY}, "longer"),
        ({"iss": "somebody"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"exp": None}, "claims"),
        ({"iat": None}, "claims"),
        ({"sub": None}, "claims"),
        ({"sub": "alice"}, "public key"),
        ({"sub": CLIENT + "00"}, "public key"),
        ({"sub": "ab" * 32}, "public key"),
        ({"sub": (2**255 - 19).to_bytes(32, "little").hex()}, "public key"),
        ({"sub": "00" * 32}, "public key"),
        ({"secret": "another secret of thirty-two bytes."}, "signature"),
        ({"algorithm": "HS512"}, "signature"),
        ({"sub": 7}, "claims"),
        ({"exp": "soon"}, "not a JSON Web Token"),
    ],
)
def test_a_token_that_fails_in_one_point_vouches_for_nobody(
    authorizer: Authorizer, new_token: Callable[..., str], changes: dict[str, Any], refusal: str
) -> None:
    found = context(authorizer, f"Bearer {new_token(**changes)}")
    assert set(found) == {"refusal"}
    assert refusal in found["refusal"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer a.b.c", "Bearer x"])
def test_a_header_without_a_token_vouches_for_nobody(authorizer: Authorizer, header: str | None) -> None:
    assert set(context(authorizer, header)) == {"refusal"}


def test_an_unsigned_token_vouches_for_nobody(authorizer: Authorizer) -> None:
    claims = {"iss": "polkadot-app", "aud": "clarion", "sub": CLIENT, "iat": NOW, "exp": NOW + DAY}
    unsigned = jwt.encode(claims, "", algorithm="none")
    assert set(context(authorizer, f"Bearer {unsigned}")) == {"refusal"}


@pytest.mark.parametrize("levels", [500, 3_000, 7_000, 20_000])
@pytest.mark.parametrize("part", ["header", "claims", "issuer"])
def test_a_token_nested_however_deep_vouches_for_nobody(authorizer: Authorizer, part: str, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    texts = {
        "header": [f'{{"alg":"HS256","kid":{deep}}}', '{"iss":"polkadot-app"}'],
        "claims": ['{"alg":"HS256"}', f'{{"iss":"polkadot-app","more":{deep}}}'],
        "issuer": ['{"alg":"HS256"}', f'{{"iss":{deep}}}'],
    }
    header, claims = (base64url(text.encode()) for text in texts[part])
    assert set(context(authorizer, f"Bearer {header}.{claims}.c2lnbmF0dXJl")) == {"refusal"}


@pytest.mark.parametrize(("seconds", "refused"), [(600, False), (601, True)])
def test_how_long_a_token_may_be_good_for_is_a_setting(
    aws: None, new_token: Callable[..., str], seconds: int, refused: bool
) -> None:
    secrets = boto3.client("secretsmanager")
    secrets.create_secret(Name=f"jwt-{seconds}", SecretString=json.dumps({"secret": "s" * 32}))
    strict = AuthorizerSettings(jwt_secret_id=f"jwt-{seconds}", jwt_audience="clarion", token_lifetime_seconds=600)
    now = int(time.time())
    token = new_token(secret="s" * 32, iat=now, exp=now + seconds)
    assert ("refusal" in context(Authorizer(strict, secrets), f"Bearer {token}")) is refused


def test_a_shared_secret_without_an_audience_stops_the_start() -> None:
    with pytest.raises(ValidationError, match="jwt_audience"):
        AuthorizerSettings(jwt_secret_id="jwt")


# ---- issuers with public keys -------------------------------------------------------------------------------

ISSUER = "https://issuer.example"
AUDIENCE = "clarion"
KEYS: dict[str, Any] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "RS256": rsa.generate_private_key(65537, 2048),
}


def jwk(algorithm: str) -> dict[str, Any]:
    jwk: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(KEYS[algorithm].public_key(), as_dict=True)
    return jwk | {"kid": algorithm, "use": "sig", "alg": algorithm}


BODIES = {
    "/jwks": json.dumps({"keys": [jwk(algorithm) for algorithm in KEYS]}).encode(),
    "/html": b"<html>Please come back later</html>",
    "/binary": b"\xff\xfe",
    "/empty": b'{"keys": []}',
}


class Jwks(BaseHTTPRequestHandler):
    """At `/reset` the connection breaks off in the middle of an answer."""

    def do_GET(self) -> None:
        body = BODIES.get(self.path)
        if body is None:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def jwks_url() -> Iterator[str]:
    """Of an endpoint that is waited for however late it answers."""
    with HTTPServer(("127.0.0.1", 0), Jwks) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jwks, "FETCH_SECONDS", 60)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/jwks"
        server.shutdown()
        thread.join()


def trusting(url: str, *algorithms: str) -> Authorizer:
    issuer = {"issuer": ISSUER, "audience": AUDIENCE, "algorithms": algorithms, "jwks_url": url}
    settings = AuthorizerSettings.model_validate({"issuers": json.dumps([issuer])})
    return Authorizer(settings, boto3.client("secretsmanager"))


def issued(algorithm: str, key: Any = None, kid: str | None = None, **changes: Any) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": CLIENT, "iat": NOW, "exp": NOW + DAY} | changes
    return jwt.encode(claims, key or KEYS[algorithm], algorithm=algorithm, headers={"kid": kid or algorithm})


@pytest.mark.parametrize("algorithm", KEYS)
def test_an_issuers_public_key_vouches_for_a_client(aws: None, jwks_url: str, algorithm: str) -> None:
    found = context(trusting(jwks_url, "ES256", "EdDSA", "RS256"), f"Bearer {issued(algorithm)}")
    assert found == {"client_id": CLIENT}


@pytest.mark.parametrize(
    ("token", "refusal"),
    [
        (issued("ES256", aud="elsewhere"), "another service"),
        (issued("ES256", aud=None), "claims"),
        (issued("ES256", iss="https://other.example"), "issuer"),
        (issued("ES256", exp=NOW - 60), "expired"),
        (issued("ES256", iat=NOW + DAY), "future"),
        (issued("ES256", kid="unknown"), "claims"),
        (issued("ES256", kid="RS256"), "claims"),
        (issued("RS256"), "claims"),
        (issued("ES256", key=ec.generate_private_key(ec.SECP256R1())), "signature"),
        (jwt.encode({"iss": ISSUER}, KEYS["ES256"], algorithm="ES256"), "claims"),
    ],
)
def test_a_public_key_vouches_only_for_what_it_signed(aws: None, jwks_url: str, token: str, refusal: str) -> None:
    found = context(trusting(jwks_url, "ES256"), f"Bearer {token}")
    assert set(found) == {"refusal"}
    assert refusal in found["refusal"]


@pytest.mark.parametrize("secret", [json.dumps(jwk("RS256")), jwk("RS256")["n"]])
def test_a_public_key_is_never_taken_for_a_shared_secret(aws: None, jwks_url: str, secret: str) -> None:
    header, claims, _ = issued("RS256").split(".")
    header = base64url(json.dumps({"alg": "HS256", "kid": "RS256"}).encode())
    seal = base64url(hmac.digest(secret.encode(), f"{header}.{claims}".encode(), "sha256"))
    assert set(context(trusting(jwks_url, "RS256"), f"Bearer {header}.{claims}.{seal}")) == {"refusal"}


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def test_an_issuer_that_does_not_answer_is_not_the_clients_fault(aws: None) -> None:
    assert set(context(trusting("http://127.0.0.1:1/jwks", "ES256"), f"Bearer {issued('ES256')}")) == {"unavailable"}


@pytest.mark.parametrize("page", ["html", "binary", "empty", "reset"])
def test_an_issuer_that_answers_with_no_keys_is_not_the_clients_fault(aws: None, jwks_url: str, page: str) -> None:
    url = jwks_url.replace("jwks", page)
    assert set(context(trusting(url, "ES256"), f"Bearer {issued('ES256')}")) == {"unavailable"}


def test_a_secret_that_is_none_is_not_the_clients_fault_and_counted(
    aws: None, new_token: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = boto3.client("secretsmanager")
    secrets.create_secret(Name="no-secret", SecretString="{}")
    broken = Authorizer(AuthorizerSettings(jwt_secret_id="no-secret", jwt_audience="clarion", stage="blue"), secrets)
    assert set(context(broken, f"Bearer {new_token()}")) == {"unavailable"}
    (line,) = (json.loads(text) for text in capsys.readouterr().out.splitlines() if '"_aws"' in text)
    assert (line["service"], line["stage"], line["keys_unavailable"]) == ("authorizer", "blue", [1])


def test_no_issuer_at_all_stops_the_start() -> None:
    with pytest.raises(ValidationError, match="no issuer"):
        AuthorizerSettings()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("polkadot-app", {"jwt_secret_id": "jwt", "jwt_audience": "clarion"}),
        ("https://push.example.org", {"login_secret_id": "login", "login_domain": "push.example.org"}),
    ],
)
def test_one_issuer_with_two_kinds_of_keys_stops_the_start(name: str, other: dict[str, str]) -> None:
    issuer = {"issuer": name, "audience": "a", "algorithms": ["ES256"], "jwks_url": "https://a.example"}
    issuers = {"issuers": json.dumps([issuer])}
    with pytest.raises(ValidationError, match="twice"):
        AuthorizerSettings.model_validate(other | issuers)
    assert AuthorizerSettings.model_validate(issuers).issuers[0].issuer == name


def test_a_silent_secrets_manager_is_given_up_before_the_authorizer_is(
    monkeypatch: pytest.MonkeyPatch, new_token: Callable[..., str]
) -> None:
    """API Gateway answers by itself where an authorizer doesn't, and not as problem details."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "CLARION_STAGE": "blue",
            "CLARION_JWT_SECRET_ID": "jwt",
            "CLARION_JWT_AUDIENCE": "clarion",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "api.authorizer", raising=False)
        authorizer = importlib.import_module("api.authorizer").AUTHORIZER
        with counted_seconds() as seconds:
            assert context(authorizer, f"Bearer {new_token()}") == {"unavailable": "the issuer's keys"}
            assert seconds() < PROD.api.authorizer.timeout_s - 1
    sys.modules.pop("api.authorizer")
