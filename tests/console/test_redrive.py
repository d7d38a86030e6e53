"""Dead letters back into their queue, by SQS's own move task or, where there is none, by hand."""

import pytest

from console import redrive
from console.depths import Depth
from console.redrive import move
from tests.console.account import Account, Clarion


@pytest.fixture
def letters(account: Account) -> list[str]:
    letters = [f"letter {number}" for number in range(23)]
    account.send("apns-dead", *letters)
    return letters


@pytest.mark.parametrize("known", [True, False], ids=["by a move task", "by hand"])
def test_every_dead_letter_comes_back_into_its_queue(
    clarion: Clarion, account: Account, letters: list[str], known: bool
) -> None:
    account.move_tasks.known = known

    ended = clarion("redrive", "apns", "--yes")

    assert (ended.code, ended.out) == (0, "23 messages moved back to apns, 0 dead letters left.\n")
    assert (account.count("apns"), account.count("apns-dead")) == (23, 0)
    received = account.sqs.receive_message(QueueUrl=account.urls["apns"], MaxNumberOfMessages=10)["Messages"]
    assert {message["Body"] for message in received} <= set(letters)


def test_nothing_moves_in_a_dry_run(clarion: Clarion, account: Account, letters: list[str]) -> None:
    ended = clarion("redrive", "apns", "--dry-run")

    assert ended.out == "23 dead letters of apns would be moved back; nothing was.\n"
    assert (ended.code, account.count("apns"), account.count("apns-dead")) == (1, 0, 23)


@pytest.mark.parametrize("typed", ["\n", ""])
def test_nothing_moves_unconfirmed(clarion: Clarion, account: Account, letters: list[str], typed: str) -> None:
    ended = clarion("redrive", "apns", typed=typed)

    assert ended.code == 2
    assert "Move 23 dead letters of prod (account 123456789012, us-east-1) back to apns?" in ended.err
    assert (account.count("apns"), account.count("apns-dead")) == (0, 23)


def test_a_yes_confirms(clarion: Clarion, account: Account, letters: list[str]) -> None:
    assert clarion("redrive", "apns", typed="y\n").code == 0
    assert account.count("apns") == 23


def test_the_task_names_where_to_since_what_a_function_buried_has_no_origin(clarion: Clarion, account: Account) -> None:
    account.send("voip-dead", "a call")

    ended = clarion("redrive", "voip", "--yes", "--per-second", "5")

    assert ended.code == 0
    assert account.move_tasks.asked == [
        {
            "SourceArn": "arn:aws:sqs:us-east-1:123456789012:clarion-prod-voip-dead",
            "DestinationArn": "arn:aws:sqs:us-east-1:123456789012:clarion-prod-voip",
            "MaxNumberOfMessagesPerSecond": 5,
        }
    ]


def test_a_task_that_fails_says_why(clarion: Clarion, account: Account) -> None:
    account.send("fcm-dead", "a message")
    account.move_tasks.ending = "FAILED"

    ended = clarion("redrive", "fcm", "--yes")

    assert ended.code == 3
    assert "SQS says FAILED after 1 messages: no permission" in ended.err


@pytest.mark.parametrize(("counting", "counted"), [(3600.0, 23), (0.0, 0)])
def test_a_task_that_is_seen_and_counted_late_is_done_whatever_its_count(
    clarion: Clarion,
    account: Account,
    letters: list[str],
    monkeypatch: pytest.MonkeyPatch,
    counting: float,
    counted: int,
) -> None:
    monkeypatch.setattr(redrive, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(redrive, "COUNTING_SECONDS", counting)
    monkeypatch.setattr(redrive, "depth", lambda *_: Depth(23, 0, 0))
    account.move_tasks.unseen = 2

    ended = clarion("redrive", "apns", "--yes")

    assert (ended.code, ended.out) == (0, f"{counted} messages moved back to apns, 23 dead letters left.\n")


def test_an_interrupted_operator_stops_the_task(account: Account) -> None:
    def interrupt(_moved: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move(account.sqs, account.here.queue("apns"), 1, None, interrupt)

    assert account.move_tasks.cancelled


def test_progress_is_told_by_hand_too(account: Account) -> None:
    account.move_tasks.known = False
    account.send("apns-dead", *(f"letter {number}" for number in range(12)))
    reported: list[int] = []

    moved = move(account.sqs, account.here.queue("apns"), 12, 1_000, reported.append)

    assert (moved.messages, reported) == (12, [10, 12])


def test_a_message_that_is_dead_lettered_again_at_once_is_not_moved_for_ever(account: Account) -> None:
    account.move_tasks.known = False
    account.send("apns-dead", "hopeless")
    reported: list[int] = []

    def dead_letter_again(moved: int) -> None:
        reported.append(moved)
        account.send("apns-dead", "hopeless")

    assert move(account.sqs, account.here.queue("apns"), 1, None, dead_letter_again).messages == 1
    assert (reported, account.count("apns-dead")) == ([1], 1)


def test_a_network_s_commands_come_back_into_their_queue(clarion: Clarion, account: Account, toy: str) -> None:
    account.send("toy-commands-dead", "an order")

    ended = clarion("redrive", f"{toy}-commands", "--yes")

    assert (ended.code, account.count("toy-commands"), account.count("toy-commands-dead")) == (0, 1, 0)


def test_a_queue_that_is_not_there_is_answered_with_those_that_are(clarion: Clarion, account: Account) -> None:
    ended = clarion("redrive", "statements-commands")

    assert ended.code == 2
    assert "QUEUE is none of envelopes, apns, voip, fcm, webpush, cleanup" in ended.err
