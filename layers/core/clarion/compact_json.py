"""JSON as it travels: UTF-8 without spaces."""

import json


def encode(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
