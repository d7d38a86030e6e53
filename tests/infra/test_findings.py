import json
from pathlib import Path
from typing import Any

import pytest

from infra.app import define_alone, synthesise
from infra.environments import ENVIRONMENTS
from infra.secrets import WHY_MADE_ELSEWHERE, WHY_MADE_HERE


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


def test_a_secret_that_is_made_here_is_not_said_to_be_made_elsewhere(tmp_path: Path) -> None:
    synthesise(define_alone("prod", outdir=str(tmp_path)))
    reasons = {
        path.rpartition("/")[2]: reason
        for file in tmp_path.glob("*.metadata.json")
        for path, notes in json.loads(file.read_text()).items()
        for note in notes
        if note["type"] == "aws:cdk:acknowledged-rules"
        for rule, reason in note["data"].items()
        if rule.endswith("-SMG4")
    }
    elsewhere = dict.fromkeys(("Apns", "Fcm", "Jwt"), WHY_MADE_ELSEWHERE)
    assert reasons == {**elsewhere, "Origin": WHY_MADE_HERE}
