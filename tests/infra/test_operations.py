"""The operator's page against what is deployed."""

import re
from collections.abc import Callable
from pathlib import Path

from aws_cdk.assertions import Template

from clarion.networks import STATEMENTS, WALLETCONNECT, XMTP, network
from console.doctor import needs
from console.doctor.plan import DeploymentPlan, PlannedStack
from infra.environments import PROD
from infra.options import STREAM_READS_PER_SECOND, TWO_READERS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
RESERVED = 200
"""That the page sets aside by way of example."""


def planned(template: Template) -> DeploymentPlan:
    return DeploymentPlan((PlannedStack("any", template.to_json()),))


def test_the_page_states_how_many_functions_the_account_has_to_run_at_once(
    prod: Template, template_with: Callable[..., Template]
) -> None:
    plan, reserving = planned(prod), planned(template_with(api={"reserved": RESERVED}))
    table = PAGE.partition("### What the account needs")[2].partition("\n#")[0]
    stated = [int(count) for count in re.findall(r"\| (?:\*\*)?(\d+)(?:\*\*)? \|$", table, re.MULTILINE)]

    of_prod = [needs.fed_by_queues(plan), needs.called_by_the_api(plan), needs.functions_at_once(plan)]
    assert stated == [*of_prod, needs.set_aside(reserving), needs.functions_at_once(reserving)]


def test_dev_is_bounded_as_the_page_says(template_of: Callable[[str], Template]) -> None:
    sources = planned(template_of("dev")).resources("AWS::Lambda::EventSourceMapping")

    bounds = [source["ScalingConfig"]["MaximumConcurrency"] for source in sources]
    assert set(bounds) == {2}
    assert f"the least that SQS takes: {sum(bounds)} in all" in PAGE


def test_the_page_says_how_seldom_further_tasks_of_ingest_read_the_rules_stream() -> None:
    three, four = (tasks / STREAM_READS_PER_SECOND for tasks in (TWO_READERS + 1, TWO_READERS + 2))

    section = PAGE.partition("#### Larger and further tasks")[2].partition("\n#")[0]
    assert f"stream_poll_seconds={three}" in section
    assert f"and four {four}." in section
    assert f"`stream_poll_seconds` {three} for three and {four} for four" in PAGE


FURTHER = PROD.dispatch.concurrency + PROD.dispatch.of_held.concurrency
"""What the queues of a further channel feed."""


def following(template_with: Callable[..., Template], name: str) -> DeploymentPlan:
    """Production with this network beside the statement store, and with what the page sets aside for the API."""
    needs_of = network(name).needs
    assert needs_of.nodes is not None
    return planned(
        template_with(
            networks=(STATEMENTS, name),
            ingest={
                **dict(PROD.ingest or {}),
                "nodes": {STATEMENTS: ["wss://node.example.org"], name: needs_of.nodes.examples},
            },
            options={name: needs_of.options.example} if needs_of.options else {},
            api={"reserved": RESERVED},
        )
    )


def test_the_page_states_what_xmtp_adds_to_the_functions_at_once(
    prod: Template, template_with: Callable[..., Template]
) -> None:
    xmtp = following(template_with, XMTP)
    reserved = needs.set_aside(xmtp)
    queues = needs.fed_by_queues(xmtp)
    assert f"of which its queue feeds {queues - needs.fed_by_queues(planned(prod))} at once" in PAGE
    assert f"each of three functions then: {reserved} instead of {2 * RESERVED}" in PAGE
    stated = " ".join(PAGE.partition("### What the account needs")[2].split())
    assert f"the queues' {queues}, or {queues + FURTHER} with the webhook" in stated
    assert f"{queues + reserved} or {queues + FURTHER + reserved} together" in stated


def test_walletconnect_adds_as_much_as_xmtp(template_with: Callable[..., Template]) -> None:
    xmtp, walletconnect = (following(template_with, name) for name in (XMTP, WALLETCONNECT))
    assert "WalletConnect adds as much as XMTP" in " ".join(PAGE.split())
    assert needs.set_aside(walletconnect) == needs.set_aside(xmtp)
    assert needs.fed_by_queues(walletconnect) == needs.fed_by_queues(xmtp)
