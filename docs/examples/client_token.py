"""A bearer token for a new client, good for an hour: `client_token.py ISSUER AUDIENCE`.

They are the environment's `jwt_issuer` and `jwt_audience`; the secret `clarion-<stage>-jwt` is its input.
"""

import json
import os
import sys
import time

import jwt
import sr25519


def main(issuer: str, audience: str) -> None:
    client, _ = sr25519.pair_from_seed(os.urandom(32))
    now = int(time.time())
    claims = {"iss": issuer, "aud": audience, "sub": client.hex(), "iat": now, "exp": now + 3600}
    print(jwt.encode(claims, json.load(sys.stdin)["secret"], algorithm="HS256"))


if __name__ == "__main__":
    main(*sys.argv[1:])
