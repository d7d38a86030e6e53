"""Issuers of client tokens beside the existing solution: configured by the account's code, trusted by the API."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, HttpUrl


class JwksIssuer(BaseModel):
    """Another issuer of client tokens, whose public keys are at `jwks_url`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str
    audience: str
    algorithms: frozenset[Literal["ES256", "EdDSA", "RS256"]] = Field(min_length=1)
    jwks_url: HttpUrl
