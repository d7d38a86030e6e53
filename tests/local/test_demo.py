"""What the demo shows of a push."""

import io
from typing import Any

import pytest
from rich.console import Console

from local.demo import _phone, scenes_of
from local.provider import ReceivedPush
from local.story import STORY

TOKEN = "ab" * 32


@pytest.mark.parametrize(
    ("headers", "payload", "title"),
    [
        ({"apns-push-type": "alert", "apns-topic": "org.example"}, {"message": "sealed"}, "APNs alert · topic org.ex"),
        ({}, {"message": {"token": TOKEN, "data": {"message": "sealed"}}}, "FCM"),
        ({"urgency": "high"}, {"message": "sealed"}, "Web Push · urgency high"),
    ],
)
def test_a_push_is_shown_without_its_token(headers: dict[str, str], payload: Any, title: str) -> None:
    console = Console(file=io.StringIO(), width=100)
    push = ReceivedPush(0, 0.0, TOKEN, headers, payload, 200, None, None)
    with console.capture() as shown:
        console.print(_phone(push))
    assert title in shown.get()
    assert '"message": "sealed"' in shown.get()
    assert TOKEN not in shown.get()


def test_scenes_are_chosen_by_a_word_of_their_titles() -> None:
    assert scenes_of(()) == list(STORY)
    assert [scene.title.partition(":")[0] for scene in scenes_of(["simplex"])] == ["SimpleX"] * 4
    with pytest.raises(SystemExit, match="no scene is called so"):
        scenes_of(["nothing"])
