"""What each kind of token is for, by its claim `act`: how long it lives, and which claims it carries.

There are two profiles: that of the product document, whose eight payloads are all signed under a key server's identity
keys, and that which was shipped, with sixteen. A claim that a token may lack may also be null.
https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/clients/notify/notify-authentication.md
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeGuard

from clarion.networks.walletconnect import did
from clarion.networks.walletconnect.did import KeyType, MalformedDid
from clarion.networks.walletconnect.tags import ActName

type Profile = Literal["document", "shipped"]
type ClaimCheck = Callable[[object], bool]
"""Whether a claim's value may be such; it is asked of None for a claim that is not there."""

SHORT, LONG = 300, 30 * 86_400
"""Seconds."""
DOCUMENT_REQUEST = 30
"""What the document has in place of `SHORT`."""
MAX_NOTIFICATIONS, MAX_MARKED = 50, 1_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Act(NamedTuple):
    """`ttl` is the exact number of seconds between `iat` and `exp`."""

    ttl: int
    claims: Mapping[str, ClaimCheck]


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def _is_limit(value: object) -> bool:
    return is_integer(value) and 1 <= value <= MAX_NOTIFICATIONS


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MAX_MARKED and all(map(is_text, value))


def _is_did(read: Callable[[str], object]) -> ClaimCheck:
    def is_read(value: object) -> bool:
        try:
            return isinstance(value, str) and bool(read(value))
        except MalformedDid:
            return False

    return is_read


def _has_texts(*names: str) -> ClaimCheck:
    return lambda value: isinstance(value, dict) and all(is_text(value.get(name)) for name in names)


def _optional(check: ClaimCheck) -> ClaimCheck:
    return lambda value: value is None or check(value)


_is_account = _is_did(did.account_of)
_is_domain = _is_did(did.domain_of)
_is_signing_key = _is_did(lambda text: did.key_of(text, KeyType.ED25519))
_is_agreement_key = _is_did(lambda text: did.key_of(text, KeyType.X25519))

_BETWEEN_KEYS = {"ksu": is_text, "app": _is_domain, "aud": _is_signing_key}
_DOCUMENT: Mapping[str, Act] = {
    ActName.SUBSCRIPTION: Act(DOCUMENT_REQUEST, {**_BETWEEN_KEYS, "sub": _is_account, "scp": is_text}),
    ActName.SUBSCRIPTION_RESPONSE: Act(LONG, {**_BETWEEN_KEYS, "sub": _is_agreement_key}),
    ActName.MESSAGE: Act(
        LONG,
        {
            **_BETWEEN_KEYS,
            "aud": _is_account,
            "sub": _is_hash,
            "msg": _has_texts("title", "body", "icon", "url", "type"),
        },
    ),
    ActName.RECEIPT: Act(LONG, {**_BETWEEN_KEYS, "sub": _is_hash}),
    ActName.UPDATE: Act(DOCUMENT_REQUEST, {**_BETWEEN_KEYS, "sub": _is_account, "scp": is_text}),
    ActName.UPDATE_RESPONSE: Act(LONG, {**_BETWEEN_KEYS, "sub": _is_hash}),
    ActName.DELETE: Act(LONG, {**_BETWEEN_KEYS, "sub": is_text}),
    ActName.DELETE_RESPONSE: Act(LONG, {**_BETWEEN_KEYS, "sub": _is_hash}),
}

_OF_ACCOUNT = {"aud": _is_signing_key, "sub": _is_account, "mjv": _optional(is_text)}
_BY_WALLET = {**_OF_ACCOUNT, "ksu": is_text, "app": _is_domain}
_BY_DAPP = {**_OF_ACCOUNT, "app": _is_domain}
_SHIPPED: Mapping[str, Act] = {
    ActName.SUBSCRIPTION: Act(SHORT, {**_BY_WALLET, "scp": is_text}),
    ActName.SUBSCRIPTION_RESPONSE: Act(LONG, {**_BY_DAPP, "sbs": _is_list}),
    # The one that has no audience.
    ActName.MESSAGE: Act(
        LONG,
        {
            "sub": _is_account,
            "app": _is_domain,
            "msg": _has_texts("id", "type", "title", "body", "icon", "url"),
            "mjv": _optional(is_text),
        },
    ),
    ActName.MESSAGE_RESPONSE: Act(LONG, _BY_WALLET),
    ActName.DELETE: Act(LONG, _BY_WALLET),
    ActName.DELETE_RESPONSE: Act(LONG, {**_BY_DAPP, "sbs": _is_list}),
    ActName.UPDATE: Act(SHORT, {**_BY_WALLET, "scp": is_text}),
    ActName.UPDATE_RESPONSE: Act(LONG, {**_BY_DAPP, "sbs": _is_list}),
    ActName.WATCH_SUBSCRIPTIONS: Act(SHORT, {**_BY_WALLET, "app": _optional(_is_domain)}),
    ActName.WATCH_SUBSCRIPTIONS_RESPONSE: Act(SHORT, {**_OF_ACCOUNT, "sbs": _is_list}),
    ActName.SUBSCRIPTIONS_CHANGED: Act(SHORT, {**_OF_ACCOUNT, "sbs": _is_list}),
    ActName.SUBSCRIPTIONS_CHANGED_RESPONSE: Act(SHORT, {**_OF_ACCOUNT, "ksu": is_text}),
    ActName.GET_NOTIFICATIONS: Act(
        SHORT, {**_BY_WALLET, "lmt": _is_limit, "aft": _optional(is_text), "urf": _optional(_is_flag)}
    ),
    ActName.GET_NOTIFICATIONS_RESPONSE: Act(
        SHORT, {**_BY_DAPP, "nfs": _is_list, "mre": _is_flag, "mur": _optional(_is_flag)}
    ),
    ActName.MARK_NOTIFICATIONS_AS_READ: Act(SHORT, {**_BY_WALLET, "all": _is_flag, "ids": _optional(_are_ids)}),
    ActName.MARK_NOTIFICATIONS_AS_READ_RESPONSE: Act(SHORT, _BY_DAPP),
}

ACTS: Mapping[Profile, Mapping[str, Act]] = {"document": _DOCUMENT, "shipped": _SHIPPED}
