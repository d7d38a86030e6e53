"""Whether a request came by way of CloudFront, where each address is limited, or around it."""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Any

from api.identity import SharedSecret
from api.problems import Kind, Problem
from clarion.secrets import Secret

HEADER = "x-clarion-origin"
"""As `infra.edge` has CloudFront send it."""


def check(event: Mapping[str, Any], secret: Secret[SharedSecret] | None) -> None:
    """Raise `Problem` for a request without the header that CloudFront adds; without a secret, any may pass."""
    if secret is None:
        return
    expected = secret.get().secret.get_secret_value()
    if not compare_digest(event["headers"].get(HEADER, "").encode(), expected.encode()):
        raise Problem(Kind.NO_ROUTE)
