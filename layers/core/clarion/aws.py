"""The functions' ways to AWS: the SDK's session and its clients, with less work for each request, and limits in time.

Botocore composes the user agent of each request anew, twice, derives the day's key for each signature, and applies the
rules for endpoints: that is almost half of the time that a request takes it. Before its first client it looks into the
folders of all services, and makes ready to ask for credentials wherever there may be some.

A write of one item that meets a transaction is refused by DynamoDB, and the SDK leaves it at that: it is tried again here.
"""

import gzip
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from botocore.auth import AUTH_TYPE_MAPS
from botocore.config import Config
from botocore.credentials import CredentialResolver, EnvProvider
from botocore.loaders import JSONFileLoader, Loader, instance_cache
from botocore.session import Session
from pydantic_core import from_json

from clarion.answers import AnswerParserFactory
from clarion.backoff import back_off
from clarion.signature import JSON_SERVICES, PostAuth

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient

ANSWER_SECONDS = 3.0
"""So long an answer is waited for, twice."""
IN_TIME = Config(connect_timeout=1, read_timeout=ANSWER_SECONDS, retries={"mode": "standard", "total_max_attempts": 2})
"""A service that hangs is given up after 8 s. By default the SDK waits for minutes, longer than a function runs: what it
has done by then is done again."""
FIREHOSE_IN_TIME = IN_TIME.merge(Config(retries={"total_max_attempts": 1}))
"""Gives up after 3 s and does not retry: what Firehose refuses goes to the queue of late events.

A request that times out may have been taken, so lines may be in the lake twice.
"""
POOL = 10
"""Connections that a client keeps, unless it is told another number: as many requests as run at once."""
CONFLICT = "TransactionConflictException"
"""DynamoDB's answer to a write of one item that is part of a transaction under way: nothing was written."""
CONFLICT_ATTEMPTS = 6
_SIGNATURE = "clarion-v4"
_EVERYWHERE = "aws-global"
_VARIANTS = ("use_fips_endpoint", "use_dualstack_endpoint")
"""Settings by which services have other endpoints, of which `ModelLoader` knows nothing."""
_SUFFIXES: Mapping[str, Callable[[bytes], bytes]] = {".json": bytes, ".json.gz": gzip.decompress}


def prepare(session: Session) -> None:
    """Before its first client. Those of `JSON_SERVICES` sign by `PostAuth`."""
    AUTH_TYPE_MAPS[_SIGNATURE] = PostAuth
    if not any(map(session.get_config_variable, _VARIANTS)):
        session.register_component("data_loader", ModelLoader())
    if EnvProvider.ACCESS_KEY in os.environ:
        # As in a function. Else the SDK makes ready to ask metadata services, each by a client of its own.
        session.register_component("credential_provider", CredentialResolver([EnvProvider()]))
    session.register_component("response_parser_factory", AnswerParserFactory())
    session.set_default_client_config(Config(user_agent=session.user_agent()))
    session.register("needs-retry.dynamodb", _conflict_delay)  # type: ignore[arg-type] # an answer counts
    for service in JSON_SERVICES:
        session.register(f"choose-signer.{service}", _choose_signature)  # type: ignore[arg-type] # an answer counts
        session.register(f"creating-client-class.{service}", _add_endpoint_once)


# Of a session of botocore's: boto3 takes a tenth of a second to import and adds nothing needed here.
def new_session() -> Session:
    """For who uses no table: `clarion.tables.bind` makes one, too."""
    session = Session()
    prepare(session)
    return session


def sqs(session: Session, pool: int = POOL) -> "SQSClient":
    return cast("SQSClient", _client(session, "sqs", IN_TIME, pool))


def firehose(session: Session, pool: int = POOL, in_time: Config = FIREHOSE_IN_TIME) -> "FirehoseClient":
    return cast("FirehoseClient", _client(session, "firehose", in_time, pool))


def secrets(session: Session, pool: int = POOL) -> "SecretsManagerClient":
    return cast("SecretsManagerClient", _client(session, "secretsmanager", IN_TIME, pool))


def s3(session: Session, pool: int = POOL) -> "S3Client":
    return cast("S3Client", _client(session, "s3", IN_TIME, pool))


def _client(session: Session, service: str, in_time: Config, pool: int) -> object:
    return session.create_client(service, config=in_time.merge(Config(max_pool_connections=pool)))


class ModelFileLoader(JSONFileLoader):
    """Reads a model in a quarter of the time that the SDK takes."""

    def load_file(self, file_path: str) -> Any:
        """None if there is no such file; `file_path` is without its suffix."""
        for suffix, decompress in _SUFFIXES.items():
            with suppress(FileNotFoundError):
                return from_json(decompress(Path(file_path + suffix).read_bytes()))
        return None


class ModelLoader(Loader):
    """Reads less than the SDK's, and faster: a start takes a third less of the processor for its clients.

    Each folder is taken for a service's: whether its model is there shows when it is read.
    """

    FILE_LOADER_CLASS = ModelFileLoader

    @instance_cache
    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002 - as botocore calls it
        return [name for path in self.search_paths for _, folders, _ in islice(os.walk(path), 1) for name in folders]

    @instance_cache
    def load_data_with_path(self, name: str) -> tuple[Any, str]:
        """The data, and its file. Of the endpoints, what the partitions say in a few lines instead of a megabyte."""
        if name != "endpoints":
            return super().load_data_with_path(name)
        data, path = super().load_data_with_path("partitions")
        return {"version": 3, "partitions": [_endpoints(partition) for partition in data["partitions"]]}, path


def _endpoints(partition: Mapping[str, Any]) -> dict[str, Any]:
    """What the SDK knew endpoints by before each service's model came with rules for them, which go before.

    S3 alone has another signature than the others, and a region for what it does in none.
    """
    usual = {"hostname": "{service}.{region}.{dnsSuffix}", "protocols": ["https"], "signatureVersions": ["v4"]}
    return {
        "partition": partition["id"],
        "dnsSuffix": partition["outputs"]["dnsSuffix"],
        "regionRegex": partition["regionRegex"],
        "regions": partition["regions"],
        "defaults": usual,
        "services": {
            "s3": {
                "partitionEndpoint": _EVERYWHERE,
                "defaults": {"signatureVersions": ["s3v4"]},
                "endpoints": {
                    _EVERYWHERE: {"hostname": "s3.amazonaws.com", "credentialScope": {"region": "us-east-1"}}
                },
            }
        },
    }


def _conflict_delay(response: tuple[object, Mapping[str, Any]] | None, attempts: int, **_: object) -> float | None:
    """Seconds until the next attempt at a write that met a transaction; None for whatever else came of it."""
    code = response[1].get("Error", {}).get("Code") if response else None
    return back_off(attempts) if code == CONFLICT and attempts < CONFLICT_ATTEMPTS else None


def _choose_signature(**_: object) -> str:
    return _SIGNATURE


def _add_endpoint_once(**creating: Any) -> None:
    creating["base_classes"].insert(0, EndpointOnce)


class EndpointOnce:
    """A base of a client's class, by which it applies the service's rules for endpoints once for each operation.

    Of a request's arguments they regard only an ARN that stands for a table's name, and no table is named by one here.
    """

    def _resolve_endpoint_ruleset(
        self, operation_model: "OperationModel", params: object, request_context: dict[str, Any]
    ) -> object:
        resolved = self.__dict__.setdefault("_resolved", {})
        if operation_model.name not in resolved:
            signing: dict[str, Any] = {}
            endpoint = super()._resolve_endpoint_ruleset(operation_model, params, signing)  # type: ignore[misc] # the client's
            resolved[operation_model.name] = endpoint, signing
        endpoint, signing = resolved[operation_model.name]
        request_context |= {name: copy(value) for name, value in signing.items()}
        return endpoint
