"""Dapps' requests at the same time, each of which may crash, whatever the order of their requests to the tables."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clarion.networks.walletconnect.commands import NotifyCommand
from clarion.networks.walletconnect.domains import public_keys
from clarion.networks.walletconnect.envelope import topic_of
from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.projects import find_app, find_project
from clarion.networks.walletconnect.topics import find_topic
from tests.api.test_races import (
    SCHEDULES,
    Op,
    Runner,
    race,
    watched,  # noqa: F401 - a fixture
)
from tests.dapps import Dapp
from tests.match.scene import InTurn

CRASHES = st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=3)
EXAMPLES = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])

pytestmark = pytest.mark.usefixtures("walletconnect_worker", "watched")


def raced(crashes: list[int | None], schedule: list[tuple[int, int]], perform: Callable[[Op], object]) -> list[object]:
    """The answers of those that have not crashed. An operation's kind is its number."""
    runners = [Runner(Op(str(number)), crash_after) for number, crash_after in enumerate(crashes)]
    race(runners, iter(schedule), perform)
    assert all(runner.requests or runner.error for runner in runners), "nobody watched their requests"
    return [runner.answer for runner in runners if not runner.error]


@EXAMPLES
@given(CRASHES, SCHEDULES)
def test_a_domain_is_had_by_one_project_whose_requests_are_followed(
    new_dapp: Callable[..., Dapp], crashes: list[int | None], schedule: list[tuple[int, int]]
) -> None:
    """The first two claims are one project's."""
    one, other = new_dapp(), new_dapp()
    dapps = [one, one, other]

    answers = raced(crashes, schedule, lambda op: dapps[int(op.kind)].claim(one.domain).status)

    assert set(answers) <= {200, 409}
    app = find_app(one.domain)
    statuses = {dapp.project_id: dapp.claim(one.domain).status for dapp in (one, other)}
    assert sorted(statuses.values()) == [200, 409]
    found = find_app(one.domain)
    assert found is not None
    assert app is None or public_keys(app) == public_keys(found)
    assert statuses[found.project_id] == 200
    assert {project_id for project_id in statuses if _domain_of(project_id)} == {found.project_id}
    assert find_topic(topic_of(public_keys(found).subscribe)) is not None


@EXAMPLES
@given(CRASHES, SCHEDULES)
def test_a_notification_with_an_id_is_one_however_often_it_is_asked_for(
    new_dapp: Callable[..., Dapp],
    queued: Callable[[], list[NotifyCommand]],
    crashes: list[int | None],
    schedule: list[tuple[int, int]],
) -> None:
    """Each request comes a second after the one before. The last is for another one, which takes a number, too."""
    dapp = new_dapp()
    assert dapp.claim().status == 200
    dapp.worker = replace(dapp.worker, threads=InTurn())
    account = dapp.subscriber()

    def ask(op: Op) -> tuple[int, list[str]]:
        dapp.clock.pass_seconds(1)
        reply = dapp.notify(account, notification_id="another" if op.kind == "2" else "launch")
        return reply.status, reply.json["sent"]

    answers = raced(crashes, schedule, ask)

    assert answers == [(200, [account])] * len(answers)
    assert ask(Op("again")) == (200, [account])
    commands = queued()
    assert len(commands) > len(answers)
    launches = [command for command in commands if command.notification.id == "launch"]
    assert all(command == launches[0] for command in launches)
    rows = list(SentNotification.query(launches[0].accounts[0].subscription_id))
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert len({row.notification_id for row in rows}) == len(rows) <= 2


def _domain_of(project_id: str) -> str | None:
    project = find_project(project_id)
    assert project is not None
    return project.app
