"""Write docs/openapi.json anew from the code."""

import json
from pathlib import Path

from api.app import app
from api.openapi import document

if __name__ == "__main__":
    Path("docs/openapi.json").write_text(json.dumps(document(app), indent=2, ensure_ascii=False) + "\n")
