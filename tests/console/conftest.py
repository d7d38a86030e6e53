import io
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, override

import boto3
import pytest
from moto import mock_aws
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.sqs.responses import SQSResponse

from console import cli, explain
from local import keys, tls
from local.apns import Apns
from local.fcm import Fcm
from tests import moto_percentiles, remembered
from tests.console.account import REGION, Account, Clarion, CloudFormation, Ended, MoveTasks, Quotas
from tests.standins import running

moto_percentiles.install()
BUNDLE_ID = "io.pcf.polkadotapp"


@pytest.fixture(scope="session")
def cloudformation() -> Iterator[CloudFormation]:
    with CloudFormation() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Session(boto3.Session):
    """Makes each client once, since that takes longer than most tests; they keep no state."""

    @cache  # noqa: B019 - one session lives as long as the tests
    @override
    def client(self, service_name: Any, **options: Any) -> Any:
        return super().client(service_name, **options)


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    return Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


@pytest.fixture
def move_tasks() -> Iterator[MoveTasks]:
    tasks = MoveTasks()
    answers = {
        "start_message_move_task": tasks.start,
        "list_message_move_tasks": tasks.list_moves,
        "cancel_message_move_task": tasks.cancel,
    }
    with remembered.more_methods(SQSResponse, **{name: _method(answer) for name, answer in answers.items()}):
        yield tasks


@pytest.fixture
def quotas() -> Iterator[Quotas]:
    made = Quotas()
    answers = {"get_service_quota": made.get, "get_aws_default_service_quota": made.get_default}
    with remembered.more_methods(ServiceQuotasResponse, **{name: _method(answer) for name, answer in answers.items()}):
        yield made


@pytest.fixture
def aws(
    session: boto3.Session, cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFormation]:
    """An account in which nothing is."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv(explain.COMMAND, "/nowhere")
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", cloudformation.url)
    cloudformation.clear()
    with mock_aws(config={"lambda": {"use_docker": False}}), pytest.MonkeyPatch.context() as within:
        within.setattr(boto3, "DEFAULT_SESSION", session)  # moto takes away the one that there was
        yield cloudformation


@pytest.fixture
def account(aws: CloudFormation, move_tasks: MoveTasks) -> Account:
    return Account(aws, move_tasks)


def _method[Service, Answer](answer: Callable[[Service], Answer]) -> Callable[[Service], Answer]:
    return lambda service: answer(service)  # noqa: PLW0108 - a bound method would not be bound again


@pytest.fixture
def clarion(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Clarion:
    """The command line, with what is typed into it."""

    def clarion(*words: str, typed: str = "") -> Ended:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = cli.main(words)
        return Ended(int(code), *capsys.readouterr())

    return clarion


@pytest.fixture
def at_work(account: Account) -> None:
    """An ingest task."""
    account.renew_lease("task-1", seconds_ago=2)


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tls.Localhost:
    return tls.issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def apple_key() -> keys.ApnsKeyPair:
    return keys.generate_apns_key()


@pytest.fixture(scope="session")
def google_account() -> keys.ServiceAccount:
    return keys.generate_service_account()


@pytest.fixture(scope="session")
def apple(localhost: tls.Localhost, apple_key: keys.ApnsKeyPair) -> Iterator[Apns]:
    with running(Apns(localhost.server_context(), known=[apple_key], topics=[BUNDLE_ID])) as server:
        yield server


@pytest.fixture(scope="session")
def google(localhost: tls.Localhost, google_account: keys.ServiceAccount) -> Iterator[Fcm]:
    with running(Fcm(localhost.server_context(), account=google_account)) as server:
        yield server
