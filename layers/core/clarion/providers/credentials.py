"""What we show the providers: Apple's provider token and Google's access token, made from keys in Secrets Manager."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Protocol
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from clarion import base64url
from clarion.providers.outcomes import CredentialRejected, Misconfigured, RetryLater
from clarion.providers.transport import Answer, Fault, Request, Transport
from clarion.secrets import Secret, SecretError

APNS_PERIOD = 2400
"""Seconds that a provider token serves. Versions that run side by side must agree on it, or APNs sees two tokens."""
APNS_PAUSE = 1200
"""Seconds that APNs takes no new token after it has seen one. An hour, after which a token is void, is both together.

So a token first seen at the very end of its period can be shown until its successor is taken, and that one is taken
so early in its own period that no delay passes on to the next.
"""
GOOGLE_SPARE = 300
"""Seconds before its end from which an access token is no longer used."""
EXCHANGE_PAUSE = 10.0
"""Seconds to wait at least after the token endpoint has failed: a batch must not wait for its time-out each time."""
FIREBASE_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"

FORBIDDEN = {"AccessDeniedException", "DecryptionFailure", "InvalidRequestException", "ResourceNotFoundException"}
"""https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html#API_GetSecretValue_Errors"""
UNREADABLE = "unreadable answer"
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
    try:
        return load_pem_private_key(pem.encode(), password=None)
    except UnsupportedAlgorithm as error:
        raise ValueError("a key of a kind that is not known") from error


type P256Key = Annotated[ec.EllipticCurvePrivateKey, PlainValidator(_p256)]


class ApnsKey(BaseModel):
    """`private_key` is the text of Apple's .p8 file."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    key_id: str
    team_id: str
    private_key: P256Key = Field(repr=False)


class GoogleAccount(BaseModel):
    """A service account's key file as Google's console exports it."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    client_email: str
    private_key: Annotated[rsa.RSAPrivateKey, PlainValidator(_rsa)] = Field(repr=False)
    project_id: str
    token_uri: str


class _Grant(BaseModel):
    """https://datatracker.ietf.org/doc/html/rfc6749#section-5.1 - `expires_in` is in seconds."""

    model_config = ConfigDict(frozen=True)

    access_token: str = Field(pattern=r"^[\x20-\x7e]+$", repr=False)
    expires_in: int


class Credential(Protocol):
    """The bearer token of one app at one provider."""

    @property
    def key_version(self) -> str | None:
        """By which the key in use and its successor differ."""

    def bearer(self) -> str | Unavailable: ...

    def renew(self) -> bool:
        """Forget what was cached, the key included. False if that can't change the provider's mind."""

    def alternate(self) -> bool:
        """Show another one that the provider may know already, as it takes no new one yet. False if there is none."""


class ApnsCredential:
    """A provider token that all workers make alike, with no word between them.

    It is issued at the start of the current 40 minutes and signed deterministically (RFC 6979), so equal key and
    period give equal bytes: APNs sees one token, however many workers there are.

    APNs may have seen the last period's token too recently to take this one's. Only it knows when that was, so it is
    its refusal that makes a worker show the last one for the first 20 minutes of a period:

          the last token is first seen     its period ends
                       ▼                          ▼
        ───────────────┬──────────────────────────┬────────────┬─────────────┬────────▶
                       └───────────── 20 minutes ──────────────▶ the new one is taken
                                                  └─────── 20 minutes ───────▶ the last one is void

    https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    """

    def __init__(self, secret: Secret[ApnsKey], clock: Clock = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._made_of: tuple[ApnsKey, int] | None = None
        self._token = ""
        self._too_new: int | None = None

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    def bearer(self) -> str | Unavailable:
        try:
            made_of = self._secret.get(), self._issued_at()
        except SECRET_FAULTS as error:
            return without_secret(error)
        if self._made_of != made_of:
            self._token = apns_token(*made_of)
            self._made_of = made_of
        return self._token

    def renew(self) -> bool:
        before = self._token
        self._too_new = None
        try:
            self._secret.reread()
        except SECRET_FAULTS:
            return False
        return self.bearer() != before

    def alternate(self) -> bool:
        """From this period's token to the last one's, or back if APNs wants that no longer."""
        period, age = self._period()
        self._too_new = None if self._too_new == period else period
        return age < APNS_PAUSE

    def _issued_at(self) -> int:
        period, age = self._period()
        return period - APNS_PERIOD if self._too_new == period and age < APNS_PAUSE else period

    def _period(self) -> tuple[int, int]:
        """When it began, and how many seconds ago."""
        now = int(self._clock())
        age = now % APNS_PERIOD
        return now - age, age


class GoogleCredential:
    """An access token for a service account, fetched anew some five minutes before it ends.

    A failed exchange is not repeated for a while, unless the account becomes another. `lane` is the transport's.
    https://developers.google.com/identity/protocols/oauth2/service-account#httprest
    """

    def __init__(
        self,
        secret: Secret[GoogleAccount],
        transport: Transport,
        clock: Clock = time.time,
        lane: str = "oauth",
    ) -> None:
        self._secret = secret
        self._transport = transport
        self._clock = clock
        self._lane = lane
        self._account: GoogleAccount | None = None
        self._granted: str | Unavailable = ""
        self._good_until = 0.0

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    @property
    def project_id(self) -> str:
        return self._account.project_id if self._account else ""

    def bearer(self) -> str | Unavailable:
        try:
            account = self._secret.get()
        except SECRET_FAULTS as error:
            return without_secret(error)
        if account is not self._account or self._clock() >= self._good_until:
            self._account = account
            self._granted, seconds = self._exchange(account)
            self._good_until = self._clock() + seconds
        return self._granted

    def renew(self) -> bool:
        try:
            account = self._secret.reread()
        except SECRET_FAULTS:
            return False
        if account is self._account and not isinstance(self._granted, str):
            return False
        self._account = None
        return True

    def alternate(self) -> bool:
        """Google takes whatever it grants."""
        return False

    def _exchange(self, account: GoogleAccount) -> tuple[str | Unavailable, float]:
        """What Google grants, or why it doesn't, and how many seconds that holds."""
        (answer,) = self._transport.send([_grant_request(account, int(self._clock()), self._lane)])
        granted = _read_grant(answer)
        if isinstance(granted, _Grant):
            return granted.access_token, granted.expires_in - GOOGLE_SPARE
        after = granted.after if isinstance(granted, RetryLater) else None
        return granted, max(after or 0.0, EXCHANGE_PAUSE)


def apns_token(key: ApnsKey, issued_at: int) -> str:
    return es256_token(key.private_key, {"kid": key.key_id}, {"iss": key.team_id, "iat": issued_at})


def es256_token(key: ec.EllipticCurvePrivateKey, header: dict[str, str], claims: Mapping[str, str | int]) -> str:
    """A JWT, signed deterministically (RFC 6979): equal arguments give equal bytes."""
    signed = _jws_input({"alg": "ES256", **header}, claims)
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA256(), deterministic_signing=True)))
    return _jws(signed, r.to_bytes(32) + s.to_bytes(32))


def google_assertion(account: GoogleAccount, issued_at: int) -> str:
    claims: dict[str, str | int] = {
        "iss": account.client_email,
        "scope": FIREBASE_SCOPE,
        "aud": account.token_uri,
        "iat": issued_at,
        "exp": issued_at + 3600,
    }
    signed = _jws_input({"alg": "RS256", "typ": "JWT"}, claims)
    return _jws(signed, account.private_key.sign(signed, padding.PKCS1v15(), SHA256()))


def _grant_request(account: GoogleAccount, now: int, lane: str) -> Request:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": google_assertion(account, now)}
    headers = ["content-type: application/x-www-form-urlencoded"]
    return Request(account.token_uri, headers, urlencode(form).encode(), lane)


def _read_grant(answer: Answer | Fault) -> _Grant | Unavailable:
    if isinstance(answer, Fault):
        return RetryLater(status=None, reason=f"oauth: {answer.reason}")
    if answer.status == 429 or answer.status >= 500:
        return RetryLater(status=None, reason=f"oauth: {answer.status}", after=answer.retry_after)
    if answer.status != 200:
        return CredentialRejected(status=answer.status, reason=f"oauth: {_oauth_error(answer)}")
    try:
        return _Grant.model_validate_json(answer.body)
    except ValidationError:
        return RetryLater(status=None, reason=f"oauth: {UNREADABLE}")


def _oauth_error(answer: Answer) -> str:
    match answer.json():
        case {"error": str(error)}:
            return error
    return UNREADABLE


def without_secret(error: SecretError | ClientError | BotoCoreError) -> Unavailable:
    if isinstance(error, SecretError):
        return Misconfigured(status=None, reason=f"secret: {error}")
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
        return Misconfigured(status=None, reason=f"secret: {code}") if code in FORBIDDEN else _later(code)
    return _later(type(error).__name__)


def _later(reason: str) -> RetryLater:
    return RetryLater(status=None, reason=f"secret: {reason}")


def _jws_input(header: dict[str, str], claims: Mapping[str, str | int]) -> bytes:
    return ".".join(
        base64url.encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims)
    ).encode()


def _jws(signed: bytes, signature: bytes) -> str:
    return f"{signed.decode()}.{base64url.encode(signature)}"
