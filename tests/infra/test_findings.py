import json
from pathlib import Path
from typing import Any

import pytest

from infra.app import define_alone, synthesise


def report(name: str, folder: Path) -> dict[str, Any]:
    """What cdk-nag and CDK's own check of the templates have found."""
    synthesise(define_alone(name, outdir=str(folder)))
    found: dict[str, Any] = json.loads((folder / "validation-report.json").read_text())
    return found


@pytest.mark.parametrize("name", ["prod", "dev"])
def test_cdk_nag_finds_nothing_that_has_no_reason(name: str, tmp_path: Path) -> None:
    checks = {each["pluginName"]: each for each in report(name, tmp_path)["pluginReports"]}
    assert checks["AwsSolutions"]["conclusion"] == "success"
    assert checks["AwsSolutions"]["violations"] == []
