"""The server as a program, with tokens that are all active: `python -m tests.ntf.program` in its environment."""

import os
import sys
from pathlib import Path

import ntf


def main() -> None:
    os.environ["OPENSSL_CONF"] = str(Path(ntf.__file__).with_name("openssl.cnf"))
    from clarion.networks.simplex.server_identity import ServerIdentity  # noqa: PLC0415 - OpenSSL reads the variable then
    from ntf.program import log_as_json, serve  # noqa: PLC0415
    from ntf.settings import NtfSettings  # noqa: PLC0415
    from ntf.task import assemble  # noqa: PLC0415
    from tests.ntf.handlers import Recording  # noqa: PLC0415

    log_as_json()
    identity = ServerIdentity.model_validate_json(sys.stdin.read())
    serve(assemble(NtfSettings.from_environment(), identity, Recording(lambda _: b"TKN ACTIVE")))


if __name__ == "__main__":
    main()
