"""What the phones on the live page show, and who can send."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clarion.channels import Channel
from clarion.networks.xmtp.wire_pb2 import GroupMessage
from console.page.app import ActionError
from local.apns_trouble import trouble_of
from local.live.phones import ENCRYPTED, LONGEST_SHOWN, PhoneOnPage, Phones, statement_text, xmtp_text
from local.live.senders import LONGEST, MOST_WAITING, Texts, senders, token_of
from local.live.troubles import TROUBLES
from local.provider import InjectedFault, Journal, ReceivedPush

TOKEN = "f0" * 32
PHONE = PhoneOnPage("Bob's iPhone", "statements", Channel.APNS, statement_text)


def statement(data: str | None) -> dict[str, Any]:
    return {"statement": {"data": data, "topic": "00" * 32}}


class Apple:
    """Its journal, and the phones that read it."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.phones = Phones({Channel.APNS: self.journal})
        self.phones.add(TOKEN, PHONE)

    def push(self, payload: Any, *, token: str = TOKEN, reason: str | None = None, **headers: str) -> None:
        status = 200 if reason is None else 410
        number = self.journal.count
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.journal.note(ReceivedPush(number, 1.5, token, named, payload, status, reason, "an-id"))


async def test_each_push_is_shown_once_with_its_text_and_never_its_token() -> None:
    apple = Apple()
    apple.push(statement(b"hello".hex()))

    [shown] = await apple.phones.news() or []

    assert (shown["phone"], shown["text"], shown["at"], shown["reason"]) == ("Bob's iPhone", "hello", 1500, None)
    assert TOKEN not in str(shown)
    assert await apple.phones.news() is None


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (statement(None), "A message too large for a push"),
        (statement("ff00"), ENCRYPTED),
        (statement("no hex"), ENCRYPTED),
        ({"statement": {}}, ENCRYPTED),
        (None, ENCRYPTED),
        ([], ENCRYPTED),
        ({"message": {"data": {"statement_data": b"by FCM".hex()}}}, "by FCM"),
    ],
)
async def test_what_cannot_be_read_is_shown_as_encrypted(payload: Any, text: str) -> None:
    apple = Apple()
    apple.push(payload)
    [shown] = await apple.phones.news() or []
    assert shown["text"] == text


async def test_of_a_giant_text_the_beginning_is_shown() -> None:
    apple = Apple()
    apple.push(statement(b"x".hex() * 1_000_000))
    [shown] = await apple.phones.news() or []
    assert shown["text"] == "x" * LONGEST_SHOWN + " …"


async def test_a_refused_push_is_shown_with_the_providers_reason() -> None:
    apple = Apple()
    apple.push(statement(b"hello".hex()), reason="Unregistered")
    [shown] = await apple.phones.news() or []
    assert shown["reason"] == "Unregistered"


async def test_a_call_is_of_the_channel_voip_and_a_strangers_push_of_another_device() -> None:
    apple = Apple()
    apple.push(statement(b"ring".hex()), token="ab" * 32, apns_push_type="voip")
    [shown] = await apple.phones.news() or []
    assert (shown["channel"], shown["phone"], shown["network"]) == ("voip", "another device", None)


def test_a_phone_with_two_tokens_is_one_card() -> None:
    apple = Apple()
    apple.phones.add("f1" * 32, PHONE)
    assert apple.phones.as_json() == [{"name": "Bob's iPhone", "network": "statements", "channel": "apns"}]


@pytest.mark.parametrize("form", ["encryptedMessage", "webhook"])
def test_a_message_of_xmtp_is_read_behind_its_salt(form: str) -> None:
    message = b64encode(GroupMessage(v1=GroupMessage.V1(data=bytes(16) + b"hello")).SerializeToString()).decode()
    payload = {"message": {"message": message}} if form == "webhook" else {form: message}
    assert xmtp_text(ReceivedPush(0, 0, TOKEN, {}, payload, 200, None, None)) == "hello"


async def started(send: Callable[[str], Awaitable[object]]) -> tuple[Texts, asyncio.Task[None]]:
    texts = Texts()
    task = asyncio.create_task(texts.send_each(send))
    await texts.begun.wait()
    return texts, task


@pytest.mark.parametrize("text", ["", " \t", "x" * (LONGEST + 1)])
async def test_a_text_that_is_empty_or_too_long_is_refused(text: str) -> None:
    texts = Texts()
    texts.begun.set()
    with pytest.raises(ActionError, match="characters"):
        await texts.put(text)


async def test_a_text_that_cannot_be_sent_is_refused_and_the_next_is_sent() -> None:
    sent: list[bytes] = []

    async def send(text: str) -> None:
        sent.append(text.encode())

    texts, task = await started(send)
    with pytest.raises(ActionError, match="not sent: UnicodeEncodeError"):
        await texts.put("half of a pair: \ud800")
    await texts.put("hello")
    assert sent == [b"hello"]
    assert texts.ready
    task.cancel()


async def test_nobody_sends_before_the_phones_are_registered_or_after_that_failed() -> None:
    texts = Texts()
    with pytest.raises(ActionError, match="being registered"):
        await texts.put("hello")
    texts.fail("ConnectError: nobody answers")
    with pytest.raises(ActionError, match="nobody answers"):
        await texts.put("hello")


async def test_a_sender_that_is_too_slow_is_not_given_more() -> None:
    texts, task = await started(lambda _: asyncio.Event().wait())
    waiting = [asyncio.create_task(texts.put("hello")) for _ in range(MOST_WAITING + 1)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(ActionError, match="too much"):
        await asyncio.gather(*waiting, texts.put("one more"))
    texts.fail("it ended")
    for one in (task, *waiting):
        one.cancel()
    await asyncio.wait([task, *waiting])


def test_every_sender_and_every_trouble_has_a_name_of_its_own() -> None:
    names = [sender.name for sender in senders()], [trouble.name for trouble in TROUBLES]
    assert all(len(each) == len(set(each)) for each in names)


def test_a_phones_token_asks_for_no_trouble() -> None:
    assert trouble_of(token_of("Bob")) == InjectedFault()
