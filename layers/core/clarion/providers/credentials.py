"""What we show the providers: Apple's provider token and Google's access token, made from keys in Secrets Manager."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Annotated, Protocol
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from clarion.providers.outcomes import CredentialRejected, Misconfigured, RetryLater
from clarion.providers.transport import Answer, Fault, Request, Transport
from clarion.secrets import Secret, SecretError

APNS_PERIOD = 2400
"""Seconds that a provider token serves: Apple wants a new one every 20 to 60 minutes, and few of them."""
GOOGLE_SPARE = 300
"""Seconds before its end from which an access token is no longer used."""
FIREBASE_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"

FORBIDDEN = {"AccessDeniedException", "DecryptionFailure", "InvalidRequestException", "ResourceNotFoundException"}
"""https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html#API_GetSecretValue_Errors"""
SECRET_FAULTS = (SecretError, ClientError, BotoCoreError)

type Unavailable = RetryLater | Misconfigured | CredentialRejected
type Clock = Callable[[], float]
"""UNIX seconds."""


def _p256(pem: object) -> ec.EllipticCurvePrivateKey:
    key = _private_key(pem)
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ValueError("not a P-256 key")


def _rsa(pem: object) -> rsa.RSAPrivateKey:
    key = _private_key(pem)
    if isinstance(key, rsa.RSAPrivateKey):
        return key
    raise ValueError("not an RSA key")


def _private_key(pem: object) -> PrivateKeyTypes:
    if not isinstance(pem, str) or "ENCRYPTED" in pem:
        raise ValueError("not an unencrypted PEM text")
    return load_pem_private_key(pem.encode(), password=None)


class ApnsKey(BaseModel):
    """`private_key` is the text of Apple's .p8 file."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    key_id: str
    team_id: str
    private_key: Annotated[ec.EllipticCurvePrivateKey, PlainValidator(_p256)] = Field(repr=False)


class GoogleAccount(BaseModel):
    """A service account's key file as Google's console exports it."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    client_email: str
    private_key: Annotated[rsa.RSAPrivateKey, PlainValidator(_rsa)] = Field(repr=False)
    project_id: str
    token_uri: str


class Credential(Protocol):
    """The bearer token of one app at one provider."""

    @property
    def key_version(self) -> str | None:
        """Tells the key in use from its successor."""

    def bearer(self) -> str | Unavailable: ...

    def renew(self) -> bool:
        """Forget what was cached, the key included. False if that can't change the provider's mind."""


class ApnsCredential:
    """A provider token that all workers make alike, with no word between them.

    It is issued at the start of the current 40 minutes and signed deterministically (RFC 6979), so equal key and
    period give equal bytes: APNs sees one token, however many workers there are.
    https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    """

    def __init__(self, secret: Secret[ApnsKey], clock: Clock = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._made_of: tuple[ApnsKey, int] | None = None
        self._token = ""

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    def bearer(self) -> str | Unavailable:
        try:
            made_of = self._secret.get(), int(self._clock()) // APNS_PERIOD * APNS_PERIOD
        except SECRET_FAULTS as error:
            return _without_secret(error)
        if self._made_of != made_of:
            self._token = apns_token(*made_of)
            self._made_of = made_of
        return self._token

    def renew(self) -> bool:
        before = self._token
        try:
            self._secret.reread()
        except SECRET_FAULTS:
            return False
        return self.bearer() != before


class GoogleCredential:
    """An access token for a service account, fetched anew some five minutes before it ends.

    https://developers.google.com/identity/protocols/oauth2/service-account#httprest
    """

    def __init__(self, secret: Secret[GoogleAccount], transport: Transport, clock: Clock = time.time) -> None:
        self._secret = secret
        self._transport = transport
        self._clock = clock
        self._granted_to: GoogleAccount | None = None
        self._token = ""
        self._good_until = 0.0

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    @property
    def project_id(self) -> str:
        return self._granted_to.project_id if self._granted_to else ""

    def bearer(self) -> str | Unavailable:
        try:
            account = self._secret.get()
        except SECRET_FAULTS as error:
            return _without_secret(error)
        if account is not self._granted_to or self._clock() >= self._good_until:
            (answer,) = self._transport.send([_exchange(account, int(self._clock()))])
            return self._take(account, answer)
        return self._token

    def renew(self) -> bool:
        self._granted_to = None
        try:
            self._secret.reread()
        except SECRET_FAULTS:
            return False
        return True

    def _take(self, account: GoogleAccount, answer: Answer | Fault) -> str | Unavailable:
        if isinstance(answer, Fault):
            return RetryLater(status=None, reason=f"oauth: {answer.reason}")
        if answer.status != 200:
            return _not_granted(answer)
        granted = json.loads(answer.body)
        self._token = granted["access_token"]
        self._good_until = self._clock() + granted["expires_in"] - GOOGLE_SPARE
        self._granted_to = account
        return self._token


def apns_token(key: ApnsKey, issued_at: int) -> str:
    signed = _jws_input({"alg": "ES256", "kid": key.key_id}, {"iss": key.team_id, "iat": issued_at})
    r, s = decode_dss_signature(key.private_key.sign(signed, ec.ECDSA(SHA256(), deterministic_signing=True)))
    return (signed + b"." + _base64url(r.to_bytes(32) + s.to_bytes(32))).decode()


def google_assertion(account: GoogleAccount, issued_at: int) -> str:
    claims: dict[str, str | int] = {
        "iss": account.client_email,
        "scope": FIREBASE_SCOPE,
        "aud": account.token_uri,
        "iat": issued_at,
        "exp": issued_at + 3600,
    }
    signed = _jws_input({"alg": "RS256", "typ": "JWT"}, claims)
    return (signed + b"." + _base64url(account.private_key.sign(signed, padding.PKCS1v15(), SHA256()))).decode()


def _exchange(account: GoogleAccount, now: int) -> Request:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": google_assertion(account, now)}
    headers = ["content-type: application/x-www-form-urlencoded"]
    return Request(account.token_uri, headers, urlencode(form).encode(), lane="oauth")


def _not_granted(answer: Answer) -> Unavailable:
    if answer.status == 429 or answer.status >= 500:
        return RetryLater(status=answer.status, reason="oauth", after=answer.retry_after)
    try:
        reason = json.loads(answer.body)["error"]
    except (ValueError, KeyError, TypeError):
        reason = "unreadable answer"
    return CredentialRejected(status=answer.status, reason=f"oauth: {reason}")


def _without_secret(error: SecretError | ClientError | BotoCoreError) -> Unavailable:
    if isinstance(error, SecretError):
        return Misconfigured(status=None, reason=f"secret: {error}")
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
        return Misconfigured(status=None, reason=f"secret: {code}") if code in FORBIDDEN else _later(code)
    return _later(type(error).__name__)


def _later(reason: str) -> RetryLater:
    return RetryLater(status=None, reason=f"secret: {reason}")


def _jws_input(header: dict[str, str], claims: Mapping[str, str | int]) -> bytes:
    return b".".join(_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def _base64url(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
