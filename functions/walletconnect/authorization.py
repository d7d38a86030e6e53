"""Who has signed a request, and whether that one may ask for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clarion.networks.walletconnect.acts import ACTS, Profile
from clarion.networks.walletconnect.did import account_did, domain_of
from clarion.networks.walletconnect.jwt import InvalidJwt, JwtFlaw, profile_of, subscription_hash, verify
from clarion.networks.walletconnect.subscriptions import account_key
from clarion.networks.walletconnect.tags import ActName
from walletconnect.key_server import KeyServerClient
from walletconnect.recipients import RequestRecipient
from walletconnect.refusals import NotServed, RefusalReason
from walletconnect.requests import RequestArrival

_OF_NO_ACCOUNT = {("document", ActName.DELETE), ("document", ActName.RECEIPT)}
"""Whose `sub` is no account: the subscription says which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """What a wallet asks, once it is known who it is, and when and in which message it came.

    `signer` is the identity key's did:key, and `account` whom it signs for, until `identity_until` if that ends. `hash` is
    the token's. Instants are in UNIX seconds.
    """

    arrival: RequestArrival
    claims: Mapping[str, Any] = field(repr=False)
    profile: Profile
    signer: str
    account: str
    hash: str
    iat: int
    exp: int
    identity_until: int | None = None

    @property
    def app(self) -> str | None:
        """The domain that it is about, if it is about one."""
        named = self.claims.get("app")
        return domain_of(named) if named else None


def profile_for(token: str, act: str) -> Profile:
    """The shipped one if the document doesn't have the act. Raises `NotServed`."""
    try:
        return profile_of(token) if act in ACTS["document"] else "shipped"
    except InvalidJwt as invalid:
        raise _refusal(invalid) from None


def authorize(  # noqa: PLR0913 - what is judged, and what it is judged by
    token: str,
    act: str,
    recipient: RequestRecipient,
    arrival: RequestArrival,
    *,
    profile: Profile,
    key_servers: KeyServerClient,
) -> SignedRequest:
    """Judged by the time of arrival, however late it is handled. Raises `NotServed`, or `KeyServerUnavailable`."""
    now = arrival.at_ms // 1000
    claims = _verified(token, act, profile, recipient, now)
    signer: str = claims["iss"]
    subject = _subject(claims, act, profile, recipient)
    identity = key_servers.identify(signer.rpartition(":")[2], claims["ksu"], subject=subject, now=now)
    request = SignedRequest(
        arrival=arrival,
        claims=claims,
        profile=profile,
        signer=signer,
        account=identity.account,
        hash=subscription_hash(token),
        iat=claims["iat"],
        exp=claims["exp"],
        identity_until=identity.until,
    )
    if identity.app not in {None, request.app}:
        raise NotServed(RefusalReason.APP_NOT_ALLOWED)
    if recipient.subscription and recipient.subscription.account != account_key(request.account):
        raise NotServed(RefusalReason.ACCOUNT_NOT_ALLOWED)
    return request


def _verified(token: str, act: str, profile: Profile, recipient: RequestRecipient, now: int) -> Mapping[str, Any]:
    try:
        return verify(token, act=act, now=now, audience=recipient.did, app=recipient.app_did, profile=profile)
    except InvalidJwt as invalid:
        raise _refusal(invalid) from None


def _subject(claims: Mapping[str, Any], act: str, profile: Profile, recipient: RequestRecipient) -> str:
    """As a did:pkh."""
    if recipient.subscription and (profile, act) in _OF_NO_ACCOUNT:
        return account_did(recipient.subscription.account_spelled)
    subject: str = claims["sub"]
    return subject


def _refusal(invalid: InvalidJwt) -> NotServed:
    if invalid.reason is JwtFlaw.EXPIRED:
        return NotServed(RefusalReason.EXPIRED)
    return NotServed(RefusalReason.INVALID_TOKEN, invalid.reason)
