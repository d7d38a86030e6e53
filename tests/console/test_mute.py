"""A channel is mute while the event source of its function is off."""

import pytest

from tests.console.account import Account, Clarion


def test_a_muted_channel_is_switched_off_and_the_others_are_not(clarion: Clarion, account: Account) -> None:
    ended = clarion("mute", "voip", "--yes")

    assert ended.code == 0
    assert "queue-old-voip" in ended.out
    assert "What POST /v1/notify pushes takes no queue and goes on" in ended.out
    assert [account.state_of(channel) for channel in ("match", "apns", "voip", "fcm")] == [
        "Enabled",
        "Enabled",
        "Disabled",
        "Enabled",
    ]


def test_unmuting_tells_how_much_waits_and_switches_it_on(clarion: Clarion, account: Account) -> None:
    clarion("mute", "apns", "--yes")
    account.send("apns", "one", "two")

    ended = clarion("unmute", "apns", typed="y\n")

    assert "push again, beginning with 2 that wait?" in ended.err
    assert (ended.code, account.state_of("apns")) == (0, "Enabled")


@pytest.mark.parametrize("word", ["mute", "unmute"])
def test_nothing_is_switched_unconfirmed(clarion: Clarion, account: Account, word: str) -> None:
    if word == "unmute":
        clarion("mute", "fcm", "--yes")
    before = account.state_of("fcm")

    ended = clarion(word, "fcm", typed="n\n")

    assert (ended.code, account.state_of("fcm")) == (2, before)


def test_the_question_says_what_goes_on(clarion: Clarion, account: Account) -> None:
    assert "except those of POST /v1/notify?" in clarion("mute", "apns", typed="n\n").err


def test_what_is_so_already_asks_nothing(clarion: Clarion, account: Account) -> None:
    ended = clarion("unmute", "fcm", typed="")

    assert (ended.code, account.state_of("fcm")) == (0, "Enabled")


def test_the_envelopes_are_no_channel(clarion: Clarion, account: Account) -> None:
    assert clarion("mute", "envelopes", "--yes").code == 2
    assert account.state_of("match") == "Enabled"
