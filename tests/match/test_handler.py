import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from match.handler import handler
from tests.match.scene import Scene, received

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def test_the_lambda_names_the_messages_to_be_received_again_and_counts_for_its_stage(
    scene: Scene,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (environment | {"CLARION_STAGE": "blue"}).items():
        monkeypatch.setenv(name, value)
    scene.subscribe()
    [message] = scene.observe_new(1)
    context = cast("LambdaContext", SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000))
    records = [received("good", message.to_json()), received("bad", "not a message")]
    assert handler({"Records": records}, context) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert len(scene.pushes()) == 1
    (metrics,) = (json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    assert (metrics["service"], metrics["stage"], metrics["notification_queued"]) == ("match", "blue", [1])


def test_what_is_not_needed_on_the_way_is_not_imported() -> None:
    """A new sandbox would wait for it: boto3 alone takes a tenth of a second."""
    spared = {"boto3", "s3transfer", "asyncio", "multiprocessing", "aws_xray_sdk"}
    imported = subprocess.run(
        [sys.executable, "-c", "import sys, match.handler; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert not spared & {*imported.stdout.split()}
