"""What an idle deployment costs, against the templates and the operator's page."""

import re

import pytest
from aws_cdk.assertions import Template

from bench.idle import PAGE, tables
from tests.infra.templates import metrics_of_dashboard, properties
from tests.pages import section

DEPLOYING = PAGE.with_name("deploying.md")
FREE_DASHBOARD_METRICS = 50
"""Of each of an account's first three dashboards: https://aws.amazon.com/cloudwatch/pricing/"""


@pytest.fixture(scope="module")
def stated() -> list[list[str]]:
    return tables()


def test_the_page_states_what_an_idle_deployment_costs_and_what_is_added(stated: list[list[str]]) -> None:
    for each in stated:
        assert "\n".join(["", *each, ""]) in PAGE.read_text()


def test_production_idles_for_forty_dollars_at_most_and_dev_for_twelve(stated: list[list[str]]) -> None:
    *_, together = stated[0]
    prod, dev = map(float, re.findall(r"\*\*(\d+\.\d\d)\*\*", together))
    assert prod <= 40
    assert dev <= 12


def test_the_first_steps_state_what_production_costs(stated: list[list[str]]) -> None:
    *_, together = stated[0]
    (edge,) = (row for row in stated[1] if "CloudFront in front of the API" in row)
    prod, added = float(re.findall(r"\*\*(\d+\.\d\d)\*\*", together)[0]), float(edge.split("|")[-2])
    assert f"some {prod + added:.0f} dollars a month" in DEPLOYING.read_text()


def test_the_budget_leaves_room_for_pushes_beside_what_production_costs_with_traffic(stated: list[list[str]]) -> None:
    *_, together = stated[0]
    added = (row for row in stated[1] if "CloudFront in front of the API" in row or "whatever is published" in row)
    fixed = float(re.findall(r"\*\*(\d+\.\d\d)\*\*", together)[0]) + sum(float(row.split("|")[-2]) for row in added)
    budget = section("docs/deploying.md", "A budget")
    assert f"up to {fixed:.0f} dollars a month" in budget
    (amount,) = re.findall(r'"Amount": "(\d+)"', budget)
    assert int(amount) > fixed


def test_the_page_on_the_ntf_server_states_what_simplex_costs(stated: list[list[str]]) -> None:
    names = [row.split("|")[1].strip() for row in stated[1]]
    start = names.index("SimpleX")
    end = next(number for number in range(start + 1, len(names)) if names[number])
    dollars = sum(float(row.split("|")[-2]) for row in stated[1][start:end])
    assert f"some {dollars:.0f} dollars a month" in PAGE.with_name("ntf.md").read_text()


def test_the_dashboard_shows_no_more_than_is_free(prod: Template) -> None:
    (dashboard,) = properties(prod, "AWS::CloudWatch::Dashboard")
    shown = {(each.namespace, each.name, *sorted(each.dimensions.items())) for each in metrics_of_dashboard(dashboard)}
    assert len(shown) <= FREE_DASHBOARD_METRICS
