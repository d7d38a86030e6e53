"""Nothing about people stays for ever, wherever it was written."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.lake import ACCESS_LOG_DAYS, DELIVERIES, DELIVERIES_DAYS, OVERSIZE_DAYS
from pipeline.period import QUEUED_MS
from tests.infra.templates import buckets_by_parameter

type Resource = Mapping[str, Any]
KEPT_DAYS = {"LakeBucket": 400, "LakeOversize": OVERSIZE_DAYS, "LakeAccessLogs": ACCESS_LOG_DAYS, "LakeEdgeLogs": 30}
FORTNIGHT_S = QUEUED_MS // 1_000
WRITES = re.compile(r"s3:(Put|\*)")


def of_kind(template: Template, kind: str) -> dict[str, Resource]:
    return {name: each["Properties"] for name, each in template.find_resources(kind).items()}


def written(template: Template, buckets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Which of `buckets`, and the folder of whatever a role may write, by the policies of a stack."""
    for policy in of_kind(template, "AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            actions, resources = statement["Action"], statement["Resource"]
            if WRITES.search(json.dumps(actions)):
                for resource in resources if isinstance(resources, list) else [resources]:
                    yield place(json.dumps(resource), buckets)


def place(resource: str, buckets: Mapping[str, str]) -> tuple[str, str]:
    (bucket,) = [bucket for parameter, bucket in buckets.items() if parameter in resource]
    folder = re.search(r'"/([a-z/]*)[^/"]*"', resource)
    assert folder, resource
    return bucket, folder[1]


def expiry(bucket: Resource, folder: str) -> int | None:
    """After so many days objects below `folder` expire, if at all."""
    rules = bucket["LifecycleConfiguration"]["Rules"]
    days = [
        rule["ExpirationInDays"]
        for rule in rules
        if "ExpirationInDays" in rule and rule["Status"] == "Enabled" and folder.startswith(rule.get("Prefix", ""))
        if "TagFilters" not in rule and not {"ObjectSizeGreaterThan", "ObjectSizeLessThan"} & rule.keys()
    ]
    return min(days, default=None)


def test_whatever_anything_may_write_to_a_bucket_expires(prod: Template, pipeline: Template) -> None:
    buckets = of_kind(prod, "AWS::S3::Bucket")
    places = {
        place for template in (prod, pipeline) for place in written(template, buckets_by_parameter(template, prod))
    }
    assert {folder for _, folder in places} >= {
        "events/",
        "errors/",
        "envelopes/",
        "ingest/seen/",
        "rules/",
        "replays/",
    }
    kept = {f"{bucket}/{folder}": expiry(buckets[bucket], folder) for bucket, folder in places}
    wanted = {
        f"{bucket}/{folder}": DELIVERIES_DAYS if folder == DELIVERIES else KEPT_DAYS[bucket[:-8]]
        for bucket, folder in places
    }
    assert kept == wanted


def test_in_every_bucket_everything_expires_and_no_version_outlives_its_object(prod: Template) -> None:
    buckets = of_kind(prod, "AWS::S3::Bucket")
    assert {name[:-8]: expiry(bucket, "") for name, bucket in buckets.items()} == KEPT_DAYS
    assert not [name for name, bucket in buckets.items() if "VersioningConfiguration" in bucket]


KEPT = ("AWS::DynamoDB::GlobalTable", "AWS::SecretsManager::Secret", "AWS::KMS::Key", "AWS::S3::Bucket")


@pytest.mark.parametrize("kind", KEPT)
def test_what_outlives_its_stack_does_not_outlive_the_failure_of_the_deployment_that_made_it(
    prod: Template, kind: str
) -> None:
    """Or the next attempt would find its name taken."""
    kept = prod.find_resources(kind).values()
    assert {each["DeletionPolicy"] for each in kept} == {"RetainExceptOnCreate"}
    assert {each["UpdateReplacePolicy"] for each in kept} == {"Retain"}


@pytest.mark.parametrize("environment", ["prod", "dev"])
def test_logs_and_messages_are_kept_for_weeks(template_of: Callable[[str], Template], environment: str) -> None:
    template = template_of(environment)
    days = {group["RetentionInDays"] for group in of_kind(template, "AWS::Logs::LogGroup").values()}
    assert len(days) == 1
    assert max(days) <= 30
    assert {queue["MessageRetentionPeriod"] for queue in of_kind(template, "AWS::SQS::Queue").values()} == {FORTNIGHT_S}


def test_a_large_envelope_outlasts_its_message_in_the_queue_and_as_a_dead_letter(prod: Template) -> None:
    """What match gives up itself it sends to the dead letters, where it is kept as long again."""
    (oversize,) = (each for name, each in of_kind(prod, "AWS::S3::Bucket").items() if name.startswith("LakeOversize"))
    kept = expiry(oversize, "envelopes/")
    assert kept
    assert kept * 86_400 > 2 * FORTNIGHT_S
