import json
from pathlib import Path
from typing import Any

import pytest

from infra.app import define_alone, synthesise
from infra.environments import ENVIRONMENTS


def report(name: str, folder: Path) -> dict[str, Any]:
    """What cdk-nag and CDK's own check of the templates have found."""
    synthesise(define_alone(name, outdir=str(folder)))
    found: dict[str, Any] = json.loads((folder / "validation-report.json").read_text())
    return found


@pytest.mark.parametrize(("name", "account"), [("prod", None), ("dev", None), ("prod", "111111111111")])
def test_cdk_nag_finds_nothing_that_has_no_reason(
    monkeypatch: pytest.MonkeyPatch, name: str, account: str | None, tmp_path: Path
) -> None:
    monkeypatch.setitem(ENVIRONMENTS, name, ENVIRONMENTS[name].model_copy(update={"account": account}))
    checks = {each["pluginName"]: each for each in report(name, tmp_path)["pluginReports"]}
    assert checks["AwsSolutions"]["conclusion"] == "success"
    assert checks["AwsSolutions"]["violations"] == []
