"""A bearer token for a new client, good for an hour; the secret `clarion-<stage>-jwt` is its input."""

import json
import os
import sys
import time

import jwt
import sr25519

ISSUER, AUDIENCE = "polkadot-app", "clarion"


def main() -> None:
    client, _ = sr25519.pair_from_seed(os.urandom(32))
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client.hex(), "iat": now, "exp": now + 3600}
    print(jwt.encode(claims, json.load(sys.stdin)["secret"], algorithm="HS256"))


if __name__ == "__main__":
    main()
