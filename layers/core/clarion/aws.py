"""The SDK's session for all clients, with less work at the start and for each request.

Botocore composes the user agent of each request anew, twice, and derives the day's key for each signature: that is more
than a third of the time that a request takes it. Before its first client it looks into the folders of all services.

A write of one item that meets a transaction is refused by DynamoDB, and the SDK leaves it at that: it is tried again here.
"""

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from botocore.auth import AUTH_TYPE_MAPS, SIGNED_HEADERS_BLACKLIST, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError
from botocore.loaders import Loader, instance_cache
from botocore.session import Session

from clarion.backoff import back_off

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_sqs import SQSClient

JSON_SERVICES = ("dynamodb", "firehose", "sqs")
"""All of their requests are a POST to `/`."""
CONFLICT = "TransactionConflictException"
"""DynamoDB's answer to a write of one item that is part of a transaction under way: nothing was written."""
CONFLICT_ATTEMPTS = 6
_SIGNATURE = "clarion-v4"
_ALGORITHM = "AWS4-HMAC-SHA256"
_END = "aws4_request"


def prepare(session: Session) -> None:
    """Before its first client. Those of `JSON_SERVICES` get the signature below."""
    session.register_component("data_loader", ModelLoader())
    session.set_default_client_config(Config(user_agent=session.user_agent()))
    session.register("needs-retry.dynamodb", _conflict_delay)  # type: ignore[arg-type] # an answer counts
    for service in JSON_SERVICES:
        session.register(f"choose-signer.{service}", _choose_signature)  # type: ignore[arg-type] # an answer counts


# Of a session of botocore's: boto3 takes a tenth of a second to import and adds nothing needed here.
def sqs(session: Session, config: Config | None = None) -> "SQSClient":
    return cast("SQSClient", session.create_client("sqs", config=config))


def firehose(session: Session, config: Config | None = None) -> "FirehoseClient":
    return cast("FirehoseClient", session.create_client("firehose", config=config))


class ModelLoader(Loader):
    """Takes each folder for a service's. Whether its model is there shows when it is read."""

    @instance_cache
    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002 - as botocore calls it
        return [folder.name for path in self.search_paths for folder in Path(path).glob("*")]


class PostAuth(SigV4Auth):
    """Signature Version 4 of a POST to `/`: the same as the SDK's own.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """

    def __init__(
        self, credentials: Credentials | ReadOnlyCredentials | None, service_name: str, region_name: str
    ) -> None:
        super().__init__(credentials, service_name, region_name)  # type: ignore[arg-type] # there may be none
        self._where = f"{region_name}/{service_name}/{_END}"

    def add_auth(self, request: AWSRequest) -> None:
        if self.credentials is None:
            raise NoCredentialsError
        at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        _replace(request, "X-Amz-Date", at)
        _replace(request, "X-Amz-Security-Token", self.credentials.token)
        _replace(request, "Authorization", None)
        scope = f"{at[:8]}/{self._where}"
        names, canonical = _canonical(request)
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = _signing_key(self.credentials.secret_key, scope)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"{self.credentials.access_key}/{scope}"
        request.headers["Authorization"] = (
            f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )


AUTH_TYPE_MAPS[_SIGNATURE] = PostAuth


def _conflict_delay(response: tuple[object, Mapping[str, Any]] | None, attempts: int, **_: object) -> float | None:
    """Seconds until the next attempt at a write that met a transaction; None for whatever else came of it."""
    code = response[1].get("Error", {}).get("Code") if response else None
    return back_off(attempts) if code == CONFLICT and attempts < CONFLICT_ATTEMPTS else None


def _choose_signature(**_: object) -> str:
    return _SIGNATURE


def _replace(request: AWSRequest, name: str, value: str | None) -> None:
    # To set a header adds another one of its name: a request that is tried again has it already.
    del request.headers[name]
    if value:
        request.headers[name] = value


def _canonical(request: AWSRequest) -> tuple[str, str]:
    """The names of the signed headers, and the canonical request."""
    headers = {name.lower(): " ".join(value.split()) for name, value in request.headers.items()}
    signed = {name: value for name, value in headers.items() if name not in SIGNED_HEADERS_BLACKLIST}
    signed["host"] = urlsplit(str(request.url)).netloc
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    names = ";".join(sorted(signed))
    body = sha256(request.body).hexdigest()  # type: ignore[arg-type] # it is encoded by now
    return names, f"POST\n/\n\n{lines}\n{names}\n{body}"


@lru_cache(maxsize=len(JSON_SERVICES))
def _signing_key(secret_key: str, scope: str) -> bytes:
    """Of a day, a region and a service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
