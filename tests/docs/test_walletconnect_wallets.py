"""What `docs/walletconnect.md` says of wallets' requests."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from clarion.networks.walletconnect.acts import ACTS, Act
from clarion.networks.walletconnect.tags import TAGS
from clarion.networks.walletconnect.topics import TopicKind
from walletconnect.refusals import UNANSWERED, RefusalReason
from walletconnect.requests import RECEIPT_ACTS, RECEIPT_TAG, REQUESTS, RequestKind

if TYPE_CHECKING:
    from clarion.networks.walletconnect.buckets import BucketSize

PAGE = (Path(__file__).parents[2] / "docs" / "walletconnect.md").read_text()
SECTION = PAGE.partition("\n## Requests of wallets\n")[2].partition("\n## ")[0]
INTERVALS = {
    500: "every half second",
    1_000: "a second",
    10_000: "every ten seconds",
    3_600_000: "an hour",
    86_400_000: "a day",
}
LIFETIMES = {30: "30 seconds", 300: "5 minutes", 30 * 86_400: "30 days"}
SHARED_CLAIMS = {"aud", "sub", "mjv", "ksu", "app"}
AGREEMENT, ACCOUNT = "a wallet's agreement key", "an account"
OF = {TopicKind.APP: "an app", TopicKind.SUBSCRIPTION: "a subscription"}
"""Whose the bucket of a topic is."""


def rows(columns: int) -> list[list[str]]:
    lines = re.findall(r"^\|(.+)\|$", SECTION, re.MULTILINE)
    found = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [row for row in found if len(row) == columns]


def words(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)[:`]", text)


def test_every_request_is_named_with_its_tag() -> None:
    shown = {
        act: int(row[1]) for row in rows(4) if row[1].isdigit() and row[1].startswith("40") for act in words(row[0])
    }
    expected = {kind.act: tag for tag, kind in REQUESTS.items()} | dict.fromkeys(RECEIPT_ACTS.values(), RECEIPT_TAG)
    assert shown == expected == {act: TAGS[act] for act in expected}


def test_every_request_is_shown_with_its_token() -> None:
    shown = [row for row in rows(5) if row[0].startswith("`")]
    assert shown == [token_row(kind) for kind in REQUESTS.values()]


def token_row(kind: RequestKind) -> list[str]:
    acts = [ACTS[profile].get(kind.act) for profile in ("shipped", "document")]
    own = [f"`{name}`" for name in ACTS["shipped"][kind.act].claims if name not in SHARED_CLAIMS]
    return [f"`{kind.act}`", f"`{kind.member}` (`{kind.answer}`)", ", ".join(own), *map(lifetime, acts)]


def lifetime(act: Act | None) -> str:
    return LIFETIMES[act.ttl] if act else ""


def test_every_error_is_named() -> None:
    shown = {word for row in rows(2) for word in words(row[0])}
    assert shown == set(map(str, set(RefusalReason) - UNANSWERED))


def test_every_bucket_is_named() -> None:
    shown = {
        (act, row[1], *row[2:])
        for row in rows(4)
        if row[1] in {*OF.values(), AGREEMENT, ACCOUNT}
        for act in words(row[0])
    }
    expected = {bucket for kind in REQUESTS.values() for bucket in buckets_of(kind)}
    assert shown == expected


def buckets_of(kind: RequestKind) -> set[tuple[str, str, str, str]]:
    whose: list[tuple[str, BucketSize | None]] = [(AGREEMENT, kind.sender_bucket), (ACCOUNT, kind.account_bucket)]
    if kind.topic in OF:
        whose.append((OF[kind.topic], kind.topic_bucket))
    return {
        (kind.act, name, f"{size.most:,}", f"{size.refill} {INTERVALS[size.interval]}") for name, size in whose if size
    }
