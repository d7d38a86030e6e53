"""Issuers of client tokens: configured by the account's code, trusted by the API."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, HttpUrl


def issuer_name(domain: str) -> str:
    """What the standalone login calls itself in its tokens: as issuer and as audience."""
    return f"https://{domain}"


class JwksIssuer(BaseModel):
    """Another issuer of client tokens, whose public keys are at `jwks_url`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str
    audience: str
    algorithms: frozenset[Literal["ES256", "EdDSA", "RS256"]] = Field(min_length=1)
    jwks_url: HttpUrl
