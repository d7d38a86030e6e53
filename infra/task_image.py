"""The tasks' image, as their definitions name it. `infra.image` says what it is made of, without CDK."""

from aws_cdk import IgnoreMode
from aws_cdk import aws_ecr_assets as images
from aws_cdk import aws_ecs as ecs

from infra.archives import ROOT
from infra.image import DOCKERFILE, IGNORED


def container_image() -> ecs.ContainerImage:
    """Only hashed at synthesis; docker is needed where the stack is deployed from."""
    return ecs.ContainerImage.from_asset(
        str(ROOT),
        file=DOCKERFILE,
        platform=images.Platform.LINUX_ARM64,
        exclude=list(IGNORED),
        ignore_mode=IgnoreMode.DOCKER,
    )
