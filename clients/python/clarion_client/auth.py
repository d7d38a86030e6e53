"""Bearer tokens for httpx, `auth=` of either client: a new one is got at first, and when one isn't good any more."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import httpx

type AuthFlow[T] = Generator[httpx.Request, httpx.Response, T]

_ATTEMPTS = 2
"""One with the token at hand, one with a new one."""


class _BearerAuth(httpx.Auth):
    requires_response_body = True
    token: str | None

    def new_token(self, request: httpx.Request) -> AuthFlow[str | None]:
        """None if it is refused, in the last answer."""
        raise NotImplementedError

    def auth_flow(self, request: httpx.Request) -> AuthFlow[None]:
        """A refused login is the answer to the request itself."""
        for _ in range(_ATTEMPTS):
            self.token = token = self.token or (yield from self.new_token(request))
            if not token:
                return
            request.headers["Authorization"] = f"Bearer {token}"
            answer = yield request
            if answer.status_code != httpx.codes.UNAUTHORIZED:
                return
            self.token = None


@dataclass
class Bearer(_BearerAuth):
    """Tokens of an issuer that the deployment trusts; `get_token` is called for each, and must not block asyncio."""

    get_token: Callable[[], str]
    token: str | None = field(default=None, init=False, repr=False)

    def new_token(self, request: httpx.Request) -> AuthFlow[str | None]:  # noqa: ARG002 - another kind asks the API
        yield from ()
        return self.get_token()


@dataclass
class SignIn(_BearerAuth):
    """The deployment's own tokens, for whoever holds an Sr25519 key: docs/api.md, "Sign in".

    `client_id` is the public key, `domain` the host name that the app connects to, and `sign` signs bytes with the key in
    Substrate's signing context.
    """

    client_id: bytes
    domain: str
    sign: Callable[[bytes], bytes]
    token: str | None = field(default=None, init=False, repr=False)

    def new_token(self, request: httpx.Request) -> AuthFlow[str | None]:
        asked = yield self._request(request, "challenges", {})
        if not asked.is_success:
            return None
        challenge = asked.json()["challenge"]
        signature = self.sign(self._message(challenge)).hex()
        signed = yield self._request(request, "tokens", {"challenge": challenge, "signature": signature})
        return signed.json()["token"] if signed.is_success else None

    def _message(self, challenge: str) -> bytes:
        """Built here and not taken from the answer, so that nobody in the middle gets to choose it."""
        lines = (
            "clarion login v1",
            f"domain: {self.domain}",
            f"client: {self.client_id.hex()}",
            f"challenge: {challenge}",
        )
        return f"<Bytes>{'\n'.join(lines)}</Bytes>".encode()

    def _request(self, cause: httpx.Request, name: str, body: dict[str, str]) -> httpx.Request:
        """To the host of the request that needs the token, with its timeouts."""
        return httpx.Request(
            "POST",
            cause.url.join(f"/v1/auth/{name}"),
            headers={"Host": cause.headers["Host"]},
            json={"client_id": self.client_id.hex(), **body},
            extensions=cause.extensions,
        )
