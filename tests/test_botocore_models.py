"""What is read once for all sessions is what each would have read."""

from pathlib import Path

import boto3
import pytest
from botocore.loaders import JSONFileLoader
from moto.core.loaders import create_loader

from tests import botocore_models
from tests.botocore_models import BOTOCORES

SERVICES = ("cloudwatch", "dynamodb", "firehose", "iam", "lambda", "s3", "secretsmanager", "sqs")
EXTRAS = ".sdk-extras.json"
"""Ends the name of what botocore merges into the file beside it."""


@pytest.mark.parametrize("service", SERVICES)
def test_however_many_clients_are_made_what_was_read_is_what_the_file_holds(service: str) -> None:
    for _ in range(2):
        session = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name="us-east-1")
        session.client(service)  # type: ignore[call-overload] # by literals
    shared = {path: read for path, read in botocore_models.read_so_far().items() if f"/{service}/" in path}

    assert shared
    for path, read in shared.items():
        if not Path(f"{path}{EXTRAS}").exists():
            assert read == BOTOCORES(JSONFileLoader(), path), path


def test_what_moto_merges_into_a_description_stays_with_moto() -> None:
    boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing").client("sqs", region_name="us-east-1")
    (shared,) = (read for path, read in botocore_models.read_so_far().items() if "/sqs/" in path and "service" in path)

    assert "query" in create_loader().load_service_model("sqs", "service-2")["metadata"]["protocols"]
    assert "query" not in shared["metadata"]["protocols"]


def test_a_file_that_is_not_there_is_looked_for_again() -> None:
    loader = JSONFileLoader()

    assert [loader.load_file("/nowhere/service-2") for _ in range(2)] == [None, None]
    assert "/nowhere/service-2" not in botocore_models.read_so_far()
