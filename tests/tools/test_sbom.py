"""`make sbom`: what the image is made of, by its lock."""

import json
import re
from pathlib import Path

from sbom import LOCKS, ROOT, write

PIN = re.compile(r"^([\w.-]+)==([^ ;]+)((?:.*\\\n)+.*)", re.MULTILINE)


def test_each_locked_package_is_listed_with_all_hashes_and_so_is_the_base(tmp_path: Path) -> None:
    listed = json.loads(write("image", tmp_path).read_text())
    found = {
        (each["name"], each["version"]): {hashed["content"] for hashed in each["externalReferences"][0]["hashes"]}
        for each in listed["components"]
        if each["type"] == "library"
    }
    locked = (ROOT / LOCKS["image"]).read_text()
    assert found == {
        (name, version): set(re.findall("sha256:(\\w+)", rest)) for name, version, rest in PIN.findall(locked)
    }
    assert [each["name"] for each in listed["components"] if each["type"] == "container"] == [
        "public.ecr.aws/docker/library/python"
    ]
    assert listed["metadata"]["component"]["name"] == "clarion"
