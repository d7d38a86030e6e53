import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from api.authorization import Authorizer

NOW = int(time.time())
CLIENT = "ab" * 32


def context(authorizer: Authorizer, header: str | None) -> dict[str, str]:
    answer = authorizer({"headers": {} if header is None else {"authorization": header}})
    assert answer["isAuthorized"] is True
    return dict(answer["context"])


@pytest.mark.parametrize("subject", [CLIENT, f"0x{CLIENT}", CLIENT.upper()])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_token_of_the_existing_solution_says_who_the_client_is(
    authorizer: Authorizer, new_token: Callable[..., str], subject: str, scheme: str
) -> None:
    assert context(authorizer, f"{scheme} {new_token(sub=subject)}") == {"client_id": CLIENT}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"exp": NOW - 60}, "expired"),
        ({"iat": NOW + 600}, "from the future"),
        ({"nbf": NOW + 600}, "from the future"),
        ({"iss": "somebody"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"exp": None}, "claims"),
        ({"iat": None}, "claims"),
        ({"sub": None}, "claims"),
        ({"sub": "alice"}, "public key"),
        ({"sub": CLIENT + "00"}, "public key"),
        ({"secret": "another secret of thirty-two bytes."}, "signature"),
        ({"algorithm": "HS512"}, "signature"),
    ],
)
def test_a_token_that_fails_in_one_point_vouches_for_nobody(
    authorizer: Authorizer, new_token: Callable[..., str], changes: dict[str, Any], refusal: str
) -> None:
    told = context(authorizer, f"Bearer {new_token(**changes)}")
    assert set(told) == {"refusal"}
    assert refusal in told["refusal"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer a.b.c", "Bearer x"])
def test_a_header_without_a_token_vouches_for_nobody(authorizer: Authorizer, header: str | None) -> None:
    assert set(context(authorizer, header)) == {"refusal"}


def test_an_unsigned_token_vouches_for_nobody(authorizer: Authorizer) -> None:
    claims = {"iss": "polkadot-app", "sub": CLIENT, "iat": NOW, "exp": NOW + 60}
    unsigned = jwt.encode(claims, "", algorithm="none")
    assert set(context(authorizer, f"Bearer {unsigned}")) == {"refusal"}
