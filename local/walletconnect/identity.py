"""How a wallet proves who it is, and checks who it hears from: an identity key that an account has authorised."""

import json
import time
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from local.walletconnect.account import ALL_APPS, THIS_APP, EthereumAccount
from local.walletconnect.acts import CHANGED, RECEIPTS, Generation, WalletAct
from local.walletconnect.codec import JsonObject, did_key, did_pkh, did_web, sign, verified
from local.walletconnect.dapp import AUTHENTICATION_KEY, Dapp


class UnexpectedClaims(Exception):  # noqa: N818 - it names what was seen
    """What a server says is not what it should."""


@dataclass(frozen=True)
class WalletIdentity:
    """`key_server` is its URL. A Notify server's own keys are given as a dapp's are."""

    account: EthereumAccount
    generation: Generation
    key_server: str
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def did(self) -> str:
        return did_key(self.key.public_key())

    @property
    def holder(self) -> str:
        return did_pkh(self.account.caip10)

    def replaced_key(self) -> "WalletIdentity":
        """The same account's, with a key that nobody has authorised."""
        return replace(self, key=Ed25519PrivateKey.generate())

    def cacao(self, domain: str, *, all_apps: bool) -> JsonObject:
        statement = ALL_APPS if all_apps else THIS_APP
        return self.account.authorise(self.key.public_key(), domain, self.key_server, statement)

    def request(self, act: WalletAct, dapp: Dapp, **claims: Any) -> str:
        """Its JWT; any claim may be given in place of the usual one."""
        usual = {"sub": self.holder, "app": did_web(dapp.domain), **self._common(act.name, act.ttl, dapp)}
        return sign({**usual, **claims}, self.key)

    def receipt(self, dapp: Dapp, message: JsonObject) -> str:
        """Of a message object, in the order in which it came."""
        receipt = RECEIPTS[self.generation]
        sub = message_hash(message) if self.generation is Generation.DOCUMENT else self.holder
        claims = {"sub": sub, "app": did_web(dapp.domain), **self._common(receipt.name, receipt.ttl, dapp)}
        return sign(claims, self.key)

    def acknowledgement(self, server: Dapp) -> str:
        """That the account's subscriptions have changed."""
        return sign({"sub": self.holder, **self._common(CHANGED.name, CHANGED.ttl, server)}, self.key)

    def answer(self, token: str, act: WalletAct, dapp: Dapp) -> JsonObject:
        """Its claims. Raises `UnexpectedClaims`, as those that follow do."""
        return _checked(token, _did_of(dapp), act.answer, act.answer_ttl, self.did)

    def change(self, token: str, server: Dapp) -> JsonObject:
        return _checked(token, _did_of(server), CHANGED.asked, CHANGED.asked_ttl, self.did)

    def message(self, token: str, dapp: Dapp) -> JsonObject:
        receipt = RECEIPTS[self.generation]
        audience = self.holder if self.generation is Generation.DOCUMENT else None
        return _checked(token, _did_of(dapp), receipt.asked, receipt.asked_ttl, audience)

    def _common(self, name: str, ttl: int, dapp: Dapp) -> dict[str, Any]:
        now = int(time.time())
        version = {"mjv": "1"} if self.generation is Generation.SHIPPED else {}
        claims = {"iat": now, "exp": now + ttl, "iss": self.did, "aud": _did_of(dapp), "ksu": self.key_server}
        return {**claims, "act": name, **version}


def token_hash(token: str) -> str:
    """Which names a subscription in the document's generation."""
    return sha256(token.encode()).hexdigest()


def message_hash(message: JsonObject) -> str:
    return sha256(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def _did_of(dapp: Dapp) -> str:
    return did_key(Ed25519PublicKey.from_public_bytes(dapp.keys[AUTHENTICATION_KEY]))


def _checked(token: str, issuer: str, act: str, ttl: int, audience: str | None) -> JsonObject:
    try:
        claims = verified(token)
    except jwt.InvalidTokenError as error:
        raise UnexpectedClaims(f"{act}: {error}") from error
    seen = claims["iss"], claims["act"], claims["exp"] - claims["iat"], claims.get("aud")
    if seen != (issuer, act, ttl, audience):
        raise UnexpectedClaims(f"{act}: {seen}, not {(issuer, act, ttl, audience)}")
    if claims["exp"] <= time.time():
        raise UnexpectedClaims(f"{act}: expired")
    return claims
