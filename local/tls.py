"""TLS for the stand-ins: a certificate authority of one's own and a certificate for localhost."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import trustme


@dataclass(frozen=True, slots=True)
class Localhost:
    """Clients trust `ca_file`; servers present `certificate_file`, which holds the private key as well."""

    ca_file: Path
    certificate_file: Path

    @classmethod
    def within(cls, folder: Path) -> Self:
        return cls(folder / "ca.pem", folder / "localhost.pem")

    def server_context(self, protocol: str = "h2") -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate_file)
        context.set_alpn_protocols([protocol])
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)


def issue(folder: Path, *hosts: str) -> Localhost:
    """Writes a new authority's certificate and one for localhost, 127.0.0.1 and other `hosts` that a stand-in plays.

    The authority's key is not kept.
    """
    localhost = Localhost.within(folder)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(localhost.ca_file))
    certificate = authority.issue_cert("localhost", "127.0.0.1", *hosts)
    certificate.private_key_and_cert_chain_pem.write_to_path(str(localhost.certificate_file))
    localhost.certificate_file.chmod(0o600)
    return localhost
