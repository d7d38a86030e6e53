"""Pin the base of ingest's image by the digest that its tag has now.

With the name of an environment, only see to it that one which keeps its data is not deployed upon a tag: tomorrow it may
be another image.
"""

import sys

from base_image import RegistryError, pin
from infra.archives import ROOT
from infra.config import Lasting
from infra.environments import ENVIRONMENTS
from infra.image import DOCKERFILE, base_is_pinned


def main() -> int:
    for name in sys.argv[1:]:
        return refuse_a_tag(name)
    try:
        digest = pin(ROOT / DOCKERFILE)
    except RegistryError as error:
        print(f"not pinned: {error}")
        return 1
    print(f"{DOCKERFILE}: {f'now pinned to {digest}: commit that' if digest else 'pinned to the newest already'}")
    return 0


def refuse_a_tag(environment: str) -> int:
    keeps = environment in ENVIRONMENTS and ENVIRONMENTS[environment].data is Lasting.KEEP
    if keeps and not base_is_pinned():
        print(f"{environment} keeps its data, and the base in {DOCKERFILE} is a tag: `make pin-base`, and commit that")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
