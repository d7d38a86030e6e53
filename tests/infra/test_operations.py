"""The operator's page against what is deployed."""

import re
from collections.abc import Callable
from pathlib import Path

from aws_cdk.assertions import Template

from clarion.networks import STATEMENTS, XMTP
from infra.environments import PROD

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
REQUEST_S = 0.1
"""That the API, and its authorizer before it, run for a request: reckoned."""
RESERVED = 200
"""That the page sets aside by way of example."""


def fed(template: Template) -> list[int]:
    """How many functions at once the queues feed at most."""
    sources = template.find_resources("AWS::Lambda::EventSourceMapping").values()
    return sorted(source["Properties"]["ScalingConfig"]["MaximumConcurrency"] for source in sources)


def test_the_page_states_how_many_functions_the_account_has_to_run_at_once(
    prod: Template, template_with: Callable[..., Template]
) -> None:
    (stage,) = prod.find_resources("AWS::ApiGatewayV2::Stage").values()
    calls = round(2 * stage["Properties"]["DefaultRouteSettings"]["ThrottlingRateLimit"] * REQUEST_S)
    reserving = template_with(api={"reserved": RESERVED}).find_resources("AWS::Lambda::Function").values()
    reserved = sum(each["Properties"].get("ReservedConcurrentExecutions", 0) for each in reserving)
    queues = sum(fed(prod))
    table = PAGE.partition("### What the account needs")[2].partition("\n#")[0]
    stated = [int(count) for count in re.findall(r"\| (?:\*\*)?(\d+)(?:\*\*)? \|$", table, re.MULTILINE)]

    assert stated == [queues, calls, queues + calls, reserved, max(queues, 100) + reserved]


def test_dev_is_bounded_as_the_page_says(template_of: Callable[[str], Template]) -> None:
    sources = fed(template_of("dev"))

    assert set(sources) == {2}
    assert f"the least that SQS takes: {sum(sources)} in all" in PAGE


FURTHER = PROD.dispatch.concurrency + PROD.dispatch.of_held.concurrency
"""What the queues of a further channel feed."""


def test_the_page_states_what_xmtp_adds_to_the_functions_at_once(
    prod: Template, template_with: Callable[..., Template]
) -> None:
    xmtp = template_with(
        networks=(STATEMENTS, XMTP),
        ingest={
            **dict(PROD.ingest or {}),
            "nodes": {STATEMENTS: ["wss://node.example.org"], XMTP: ["https://node.example.org:443"]},
        },
        api={"reserved": RESERVED},
    )
    reserved = sum(
        each["Properties"].get("ReservedConcurrentExecutions", 0)
        for each in xmtp.find_resources("AWS::Lambda::Function").values()
    )
    queues = sum(fed(xmtp))
    assert f"of which its queue feeds {queues - sum(fed(prod))} at once" in PAGE
    assert f"each of three functions then: {reserved} instead of {2 * RESERVED}" in PAGE
    stated = " ".join(PAGE.partition("### What the account needs")[2].split())
    assert f"the queues' {queues}, or {queues + FURTHER} with the webhook" in stated
    assert f"{queues + reserved} or {queues + FURTHER + reserved} together" in stated
