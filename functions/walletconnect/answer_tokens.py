"""The tokens that we answer wallets with."""

from collections.abc import Mapping

from clarion.networks.walletconnect.did import account_did
from clarion.networks.walletconnect.jwt import issue
from walletconnect.authorization import SignedRequest
from walletconnect.recipients import RequestRecipient

VERSION = "1"
"""Of the shipped protocol, as the claim `mjv` says it."""


def answer_token(
    request: SignedRequest, act: str, recipient: RequestRecipient, claims: Mapping[str, object], at_ms: int
) -> str:
    """`claims` are those of the answer alone. `at_ms` is when the request was accepted, in UNIX milliseconds."""
    app = {"app": recipient.app_did} if recipient.app else {}
    if request.profile == "document":
        own = {"ksu": key_server_of(recipient)}
    else:
        own = {"sub": account_did(request.account), "mjv": VERSION}
    whole = {"aud": request.signer, **app, **own, **claims}
    return issue(recipient.signing_key, whole, act=act, now=at_ms // 1000, profile=request.profile)


def key_server_of(recipient: RequestRecipient) -> str | None:
    """Where the document's wallets find out whose key has signed: the app's domain, whose `did.json` has it."""
    return f"https://{recipient.domain}" if recipient.app else None
