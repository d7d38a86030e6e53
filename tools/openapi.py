"""Write docs/openapi.json anew from the code."""

import json
from pathlib import Path

from api.app import resolver
from api.openapi import document
from clarion.networks import NETWORKS

if __name__ == "__main__":
    Path("docs/openapi.json").write_text(
        json.dumps(document(resolver(tuple(NETWORKS)), NETWORKS), indent=2, ensure_ascii=False) + "\n"
    )
