"""The base of ingest's image: the reference in its Dockerfile, and the digest that the registry has for it.

Registries answer as the OCI distribution specification has it, after a token that anybody gets:
https://github.com/opencontainers/distribution-spec/blob/main/spec.md, https://distribution.github.io/distribution/spec/auth/token/
"""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import httpx

INDEXES = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
"""Of the images for all platforms, so that one digest serves the task's and a developer's."""
PLATFORM = {"os": "linux", "architecture": "arm64"}
_FROM = re.compile(r"^FROM (\S+)$", re.MULTILINE)
_SECONDS = 30.0


class RegistryError(Exception):
    """The registry does not say what the image is. The text is for the operator."""


@dataclass(frozen=True)
class Image:
    """`registry/repository:tag`, and the `digest` by which it is pinned; empty if it is not."""

    registry: str
    repository: str
    tag: str
    digest: str = ""

    @classmethod
    def read(cls, dockerfile: str) -> Self:
        (reference,) = _FROM.findall(dockerfile)
        name, _, digest = reference.partition("@")
        place, _, tag = name.rpartition(":")
        registry, _, repository = place.partition("/")
        return cls(registry, repository, tag, digest)

    def write(self, dockerfile: str) -> str:
        return _FROM.sub(f"FROM {self}", dockerfile)

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")

    def resolved(self) -> Self:
        """The same with the digest that its tag has now. Raise `RegistryError`."""
        try:
            with httpx.Client(base_url=f"{self._scheme}://{self.registry}", timeout=_SECONDS) as client:
                manifest = self._manifest(client)
        except httpx.HTTPError as error:
            raise RegistryError(f"{self.registry}: {type(error).__name__}") from error
        digest = f"sha256:{sha256(manifest.content).hexdigest()}"
        if manifest.headers.get("docker-content-digest", digest) != digest:
            raise RegistryError(f"{self}: the manifest is another than its digest says")
        if not any(PLATFORM.items() <= each.items() for each in _platforms(manifest.json())):
            raise RegistryError(f"{self}: has no image for {'/'.join(PLATFORM.values())}")
        return replace(self, digest=digest)

    @property
    def _scheme(self) -> str:
        """Without TLS on this machine alone, as docker has it."""
        return "http" if self.registry.partition(":")[0] in {"localhost", "127.0.0.1"} else "https"

    def _manifest(self, client: httpx.Client) -> httpx.Response:
        path, headers = f"/v2/{self.repository}/manifests/{self.tag}", {"Accept": INDEXES}
        answer = client.get(path, headers=headers)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = _token(client, answer.headers.get("www-authenticate", ""))
            answer = client.get(path, headers={**headers, "Authorization": f"Bearer {token}"})
        if not answer.is_success:
            raise RegistryError(f"{self}: the registry answers {answer.status_code}")
        return answer


def pin(dockerfile: Path) -> str | None:
    """Write the digest that the tag has now; returns it if the file had another, or none. Raise `RegistryError`."""
    text = dockerfile.read_text()
    image = Image.read(text)
    resolved = image.resolved()
    if resolved == image:
        return None
    dockerfile.write_text(resolved.write(text))
    return resolved.digest


def _token(client: httpx.Client, challenge: str) -> str:
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = asked.pop("realm", None)
    if realm is None:
        raise RegistryError(f"{client.base_url.host}: asks for something else than a token")
    answer = client.get(realm, params=asked)
    if not answer.is_success:
        raise RegistryError(f"{client.base_url.host}: gives no token, but {answer.status_code}")
    found = answer.json()
    return str(found.get("token") or found["access_token"])


def _platforms(index: dict[str, Any]) -> list[dict[str, str]]:
    return [each.get("platform", {}) for each in index.get("manifests", [])]
