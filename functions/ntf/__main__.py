"""`python -m ntf`: serve until SIGTERM."""

import os
from pathlib import Path


def main() -> None:
    os.environ.setdefault("OPENSSL_CONF", str(Path(__file__).with_name("openssl.cnf")))
    from ntf.program import run  # noqa: PLC0415 - it loads OpenSSL, which reads the variable then

    run()


if __name__ == "__main__":
    main()
