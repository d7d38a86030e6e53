"""What the emulator is given to deploy."""

import json
from pathlib import Path

from local.emulator import edit, templates_of


def test_an_edited_template_goes_by_another_name_so_that_it_is_uploaded_beside_the_one_it_was(tmp_path: Path) -> None:
    (tmp_path / "stack.template.json").write_text("180")
    files = {name: {"source": {"path": path}} for name, path in {"a1": "stack.template.json", "b2": "code"}.items()}
    (tmp_path / "stack.assets.json").write_text(json.dumps({"files": files}))
    (tmp_path / "manifest.json").write_text('"s3://assets/a1.json"')

    edit(tmp_path, lambda text: text.replace("180", "20"))

    assert [template.read_text() for template in templates_of(tmp_path)] == ["20"]
    assets = json.loads((tmp_path / "stack.assets.json").read_text())["files"]
    named = {asset["source"]["path"]: name for name, asset in assets.items()}
    assert named["stack.template.json"] != "a1"
    assert named["code"] == "b2"
    assert (tmp_path / "manifest.json").read_text() == f'"s3://assets/{named["stack.template.json"]}.json"'
