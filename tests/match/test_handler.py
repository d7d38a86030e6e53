import pytest

from match.handler import handler
from tests.match.scene import Scene, received


def test_the_lambda_names_the_messages_that_are_to_come_again(
    scene: Scene, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    scene.subscribe()
    [message] = scene.observe_new(1)
    records = [received("good", message.to_json()), received("bad", "not a message")]
    assert handler({"Records": records}, None) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert len(scene.pushes()) == 1
