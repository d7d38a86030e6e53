"""The demo's scenes, in order: the deployed stack driven as its users would."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template

from infra.environments import EMULATOR, PROD
from infra.stack import ClarionStack
from local.cast import Cast
from local.emulator import REGION
from local.lake_copy import LakeCopy, healthy
from local.scenes import Scene
from local.story import STORY
from local.system import System
from local.tasks import as_role
from tests.grants import permissions_of_job

PIPELINE = "clarion-prod-pipeline"
pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def cast() -> Cast:
    return Cast()


@pytest.fixture(scope="module", autouse=True)
def begun() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize("scene", STORY, ids=lambda scene: scene.title)
async def test_the_story_goes_as_told(scene: Scene, system: System, cast: Cast) -> None:
    outcome = await scene.play(system, cast)

    assert outcome.decisions


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeCopy:
    return LakeCopy(tmp_path_factory.mktemp("lake"))


async def test_what_the_rooms_told_the_lake_of_it_is_what_should_have_happened(
    system: System, begun: datetime, lake: LakeCopy
) -> None:
    await lake.update(system)
    ended, hour = datetime.now(UTC), timedelta(hours=1)
    await lake.compact("--from", (begun - hour).isoformat(), "--to", (ended + hour).isoformat())
    assert list((lake.root / "observed").rglob("*.parquet"))
    assert not await healthy(lake, begun.isoformat(), ended.isoformat())


async def test_what_is_of_no_use_is_retired_by_a_job_that_may_do_no_more(
    system: System, cast: Cast, lake: LakeCopy, production: ClarionStack
) -> None:
    emulator, prefix = system.deployment.emulator, EMULATOR.prefix
    role = await asyncio.to_thread(role_of_job, system, production, "RetireRole")
    settings = {
        "CLARION_TABLE_PREFIX": prefix,
        "CLARION_EVENTS_STREAM": f"{prefix}events",
        "CLARION_LATE_EVENTS_QUEUE_URL": system.queue_urls["late-events"],
    }

    # A day is the least that somebody is idle for, and the lake has to know of each of its hours.
    later = timedelta(days=2)
    then = datetime.now(UTC) + later
    period = ("--from", (then - timedelta(days=3)).isoformat(), "--to", then.isoformat())
    await lake.compact(*period, later=later)
    await lake.job("retire", "--idle-days", "1", variables={**as_role(emulator, role), **settings}, later=later)

    async with system.api_of(cast.bob) as api:
        assert not await api.list_subscriptions()


def role_of_job(system: System, production: ClarionStack, name: str) -> str:
    """A role that may do what the pipeline's stack grants the job, apart from the lake, which it has a copy of."""
    stack = production.node.root.node.find_child(PIPELINE)
    assert isinstance(stack, Stack)
    granted = permissions_of_job(Template.from_stack(stack).to_json()["Resources"], name)
    statements = [
        {"Effect": "Allow", "Action": action, "Resource": arns}
        for action, resources in granted.items()
        if (arns := [arn for resource in resources if (arn := deployed_as(resource))])
    ]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    iam = system.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy(trust))["Role"]
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(*statements))
    return str(role["Arn"])


def deployed_as(resource: str) -> str | None:
    """The emulator's ARN of what the template calls so."""
    if resource == "LakeEvents":
        return f"arn:aws:firehose:{REGION}:000000000000:deliverystream/{EMULATOR.prefix}events"
    if resource.startswith(PROD.prefix):
        name = resource.removeprefix(PROD.prefix)
        return f"arn:aws:dynamodb:{REGION}:000000000000:table/{EMULATOR.prefix}{name}"
    return None


def policy(*statements: Mapping[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
