"""Commands of WalletConnect travel as JSON, and show nothing of what people write."""

import pytest
from pydantic import ValidationError

from clarion.messages import CommandMessage
from clarion.networks.walletconnect.commands import (
    ACCOUNTS,
    DappNotification,
    NotifyAccount,
    NotifyCommand,
    RelayCommand,
    WalletConnectCommand,
    command_of,
    message_digest,
    message_of,
    read_command,
)

RELAY = RelayCommand(topic="5a" * 32, message="AAEC", tag=4000, published_at=1_800_000_000_000, replayed=True)
NOTIFICATION = DappNotification(id="one", type="a type", title="Grüße", body="to all", url="https://app.example.com")
TO = NotifyAccount(account="eip155:1:0x931E", subscription_id="a subscription", number=3)
NOTIFY = NotifyCommand(
    project_id="0" * 32, app="app.example.com", notification=NOTIFICATION, accounts=(TO,), issued_at=1
)


@pytest.mark.parametrize("command", [RELAY, NOTIFY], ids=["relay", "notify"])
def test_a_command_is_read_as_it_was_sent(command: WalletConnectCommand) -> None:
    assert read_command(command_of(command).content) == command
    assert read_command(CommandMessage.model_validate_json(message_of(command).to_json()).content) == command


def test_the_same_message_on_another_topic_has_another_digest() -> None:
    assert message_digest("ab", "c") != message_digest("a", "bc")


@pytest.mark.parametrize("count", [0, ACCOUNTS + 1])
def test_a_command_is_for_some_accounts(count: int) -> None:
    with pytest.raises(ValidationError):
        NotifyCommand(**{**dict(NOTIFY), "accounts": (TO,) * count})


def test_a_command_says_which_number_a_subscriber_s_notification_has() -> None:
    other = TO.model_copy(update={"subscription_id": "another", "number": 7})
    command = NOTIFY.model_copy(update={"accounts": (TO, other)})
    assert [command.number_for(each) for each in ("another", "a subscription")] == [7, 3]


@pytest.mark.parametrize("content", [b"", b"hourly", b"{}", b'{"kind":"semaphore"}'])
def test_what_is_no_command_is_refused(content: bytes) -> None:
    with pytest.raises(ValidationError):
        read_command(content)


def test_neither_the_text_of_a_notification_nor_an_envelope_is_in_a_repr() -> None:
    shown = f"{RELAY!r} {NOTIFY!r}"
    assert not [text for text in (RELAY.message, NOTIFICATION.title, NOTIFICATION.body) if text in shown]
