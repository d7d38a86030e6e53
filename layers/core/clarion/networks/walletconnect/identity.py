"""Whose an identity key is: the CACAO that a key server has of it, by which an account's owner let it sign for them.

    {"h": {"t": "eip4361"}, "p": {"iss": "did:pkh:…", "aud": "did:key:…", …}, "s": {"t": "eip191", "s": "0x…"}}

What the owner signed is a text for people (`siwe`). What the key may do then is said by the text's statement, which is
one of a few, or by a ReCap. https://chainagnostic.org/CAIPs/caip-74
https://github.com/WalletConnect/notify-server/blob/main/src/auth.rs
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict

from clarion.networks.walletconnect import recap
from clarion.networks.walletconnect.did import MalformedDid, account_of
from clarion.networks.walletconnect.ethereum import signer_of
from clarion.networks.walletconnect.siwe import SiwePayload, instant_of, message_of

NOTIFY = "https://notify.walletconnect.com"
"""What a ReCap's abilities are for, whoever the Notify server is."""
ALL_APPS = "all-apps"
IDENTITY_KEY = "walletconnect_identity_key"
_MESSAGES = "I further authorize this app to send and receive messages on my behalf"
_BY_IDENTITY = "using my WalletConnect identity. Read more at https://walletconnect.com/identity"
_MANAGE = "I further authorize this app to view and manage my notifications for ALL apps. Read more at"
THIS_DOMAIN = {
    "I further authorize this app to send me notifications. Read more at https://walletconnect.com/notifications",
    f"{_MESSAGES} for THIS domain {_BY_IDENTITY}",
}
ALL_DOMAINS = {
    f"{_MANAGE} https://walletconnect.com/notifications-all-apps",
    f"{_MANAGE} https://walletconnect.com/notifications",
    f"{_MESSAGES} for ALL domains {_BY_IDENTITY}",
    f"{_MESSAGES} {_BY_IDENTITY}",
}
_ABILITY = re.compile(r"manage/([a-zA-Z0-9.-]+)-notifications")


class CacaoFlaw(StrEnum):
    """As the reference server names them, where it does."""

    VERIFICATION = "CacaoVerification"
    ACCOUNT_ID = "CacaoAccountId"
    CONTRACT_SIGNATURE = "CacaoContractSignature"
    """EIP-1271: only the account's contract can judge the signature, so only who reads its chain."""
    WRONG_IDENTITY_KEY = "CacaoWrongIdentityKey"
    STATEMENT_MISSING = "CacaoStatementMissing"
    STATEMENT_INVALID = "CacaoStatementInvalid"
    MORE_THAN_ONE_RECAP_URI = "CacaoMoreThanOneRecapUri"
    RECAP_PARSE = "CacaoRecapParse"
    STATEMENT_DOES_NOT_MATCH_RECAP = "CacaoStatementDoesNotMatchRecap"
    RECAP_NO_NOTIFY_URI = "CacaoRecapNoNotifyUri"
    RECAP_ABILITY = "CacaoRecapAbility"
    ACCOUNT_MISMATCH = "CacaoAccountMismatch"
    NOT_YET_VALID = "CacaoNotYetValid"
    EXPIRED = "CacaoExpired"


class InvalidCacao(ValueError):  # noqa: N818 - it names what was received, as `Malformed` does
    """The text holds nothing of the CACAO."""

    def __init__(self, reason: CacaoFlaw) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Identity:
    """`account` is `eip155:<chain>:<address>`. `app` is the domain of the only app to sign for, None for any.

    `until` is when it ends, in UNIX seconds, if it does; whom it names doesn't depend on that.
    """

    account: str
    app: str | None
    until: int | None = field(default=None, compare=False)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class _Header(_Strict):
    # The two names of one text.
    t: Literal["eip4361", "caip122"]


class _Signature(_Strict):
    t: Literal["eip191", "eip1271"]
    s: str


class _Cacao(_Strict):
    h: _Header
    p: SiwePayload
    s: _Signature


def check_cacao(cacao: Mapping[str, object], *, identity_public_key: str, subject: str, now: float) -> Identity:
    """Whether `subject`, a did:pkh, let the key sign for it at `now` in UNIX seconds. Raises `InvalidCacao`.

    `identity_public_key` is written as key servers are asked for it: the end of its did:key, after the last colon.
    """
    read = _read(cacao)
    payload = read.p
    account = _signing_account(read)
    _require(_identity_key(payload.aud) == f"did:key:{identity_public_key}", CacaoFlaw.WRONG_IDENTITY_KEY)
    app = _authorised_app(payload)
    _require(payload.iss == subject, CacaoFlaw.ACCOUNT_MISMATCH)
    at = datetime.fromtimestamp(now, UTC)
    _require(payload.nbf is None or instant_of(payload.nbf) <= at, CacaoFlaw.NOT_YET_VALID)
    end = None if payload.exp is None else instant_of(payload.exp)
    _require(end is None or end > at, CacaoFlaw.EXPIRED)
    return Identity(account, app, None if end is None else int(end.timestamp()))


def _read(cacao: Mapping[str, object]) -> _Cacao:
    try:
        return _Cacao.model_validate(dict(cacao))
    except ValueError:
        raise InvalidCacao(CacaoFlaw.VERIFICATION) from None


def _signing_account(cacao: _Cacao) -> str:
    try:
        account = account_of(cacao.p.iss)
    except MalformedDid:
        raise InvalidCacao(CacaoFlaw.ACCOUNT_ID) from None
    _require(cacao.s.t == "eip191", CacaoFlaw.CONTRACT_SIGNATURE)
    try:
        signer = signer_of(message_of(cacao.p), cacao.s.s)
    except ValueError:
        raise InvalidCacao(CacaoFlaw.VERIFICATION) from None
    _require(account.endswith(signer), CacaoFlaw.VERIFICATION)
    return account


def _identity_key(audience: str) -> str | None:
    """The audience is the key's DID, or a page of the app whose query names it."""
    if audience.startswith("did:key:"):
        return audience
    query = audience.partition("?")[2].partition("#")[0]
    match parse_qs(query).get(IDENTITY_KEY):
        case [key]:
            return key
    return None


def _authorised_app(payload: SiwePayload) -> str | None:
    """The domain that the signed text allows; None for any."""
    statement, resources = payload.statement, payload.resources or []
    if statement is None:
        raise InvalidCacao(CacaoFlaw.STATEMENT_MISSING)
    recaps = [resource for resource in resources if resource.startswith(recap.PREFIX)]
    _require(len(recaps) <= 1, CacaoFlaw.MORE_THAN_ONE_RECAP_URI)
    if recaps:
        _require(recaps == resources[-1:], CacaoFlaw.RECAP_PARSE)
        return _app_of_recap(recaps[0], statement)
    _require(statement in THIS_DOMAIN | ALL_DOMAINS, CacaoFlaw.STATEMENT_INVALID)
    return payload.domain if statement in THIS_DOMAIN else None


def _app_of_recap(uri: str, statement: str) -> str | None:
    try:
        read = recap.parse(uri)
    except ValueError:
        raise InvalidCacao(CacaoFlaw.RECAP_PARSE) from None
    _require(statement.endswith(recap.statement_of(read)), CacaoFlaw.STATEMENT_DOES_NOT_MATCH_RECAP)
    _require(NOTIFY in read.att, CacaoFlaw.RECAP_NO_NOTIFY_URI)
    match [*read.att[NOTIFY].items()]:
        case [(ability, [restrictions])] if not restrictions and (matched := _ABILITY.fullmatch(ability)):
            return None if matched[1] == ALL_APPS else matched[1]
    raise InvalidCacao(CacaoFlaw.RECAP_ABILITY)


def _require(holds: bool, flaw: CacaoFlaw) -> None:  # noqa: FBT001 - a condition, not a flag
    if not holds:
        raise InvalidCacao(flaw)
