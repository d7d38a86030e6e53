"""The signature of requests to AWS, with less work for each than the SDK's: the day's key is derived once."""

import hmac
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from urllib.parse import urlsplit

from botocore.auth import SIGNED_HEADERS_BLACKLIST, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError

JSON_SERVICES = ("dynamodb", "firehose", "sqs")
"""All of their requests are a POST to `/`."""
_ALGORITHM = "AWS4-HMAC-SHA256"
_END = "aws4_request"
_PORTS = {"http": 80, "https": 443}


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
        if not _is_plain_post(request):
            # Lambda's SDK is newer than the one that is tested here: a service may have another protocol by then.
            super().add_auth(request)
            return
        if self.credentials is None:
            raise NoCredentialsError
        at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        _remove_signature(request)
        request.headers["X-Amz-Date"] = at
        if self.credentials.token:
            request.headers["X-Amz-Security-Token"] = self.credentials.token
        scope = f"{at[:8]}/{self._where}"
        names, canonical = _canonical(request)
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = _signing_key(self.credentials.secret_key, scope)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"{self.credentials.access_key}/{scope}"
        request.headers["Authorization"] = (
            f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )


def _is_plain_post(request: AWSRequest) -> bool:
    url = urlsplit(request.url)
    is_whole = isinstance(request.data, bytes)
    return is_whole and request.method == "POST" and url.path in {"", "/"} and not url.query


def _remove_signature(request: AWSRequest) -> None:
    # To set a header adds another one of its name: a request that was signed before would have each of them twice.
    if "X-Amz-Date" in request.headers:
        for name in ("X-Amz-Date", "X-Amz-Security-Token", "Authorization"):
            del request.headers[name]


def _canonical(request: AWSRequest) -> tuple[str, str]:
    """The names of the signed headers, and the canonical request."""
    headers = {name.lower(): " ".join(value.split()) for name, value in request.headers.items()}
    signed = {name: value for name, value in headers.items() if name not in SIGNED_HEADERS_BLACKLIST}
    signed["host"] = _host(str(request.url))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    names = ";".join(sorted(signed))
    body = sha256(request.data).hexdigest()  # type: ignore[arg-type] # bytes, as `_is_plain_post` has seen
    return names, f"POST\n/\n\n{lines}\n{names}\n{body}"


@lru_cache(maxsize=16)
def _host(url: str) -> str:
    """The header `Host` as it is sent: in lower case, without a port that the scheme implies."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return host if parts.port in {None, _PORTS.get(parts.scheme)} else f"{host}:{parts.port}"


@lru_cache(maxsize=len(JSON_SERVICES))
def _signing_key(secret_key: str, scope: str) -> bytes:
    """Of a day, a region and a service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
