"""`make synth` is green only if every check has run and found nothing."""

import importlib.util
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "synth.py"


@pytest.fixture
def synth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, over a folder of its own in which an earlier run has found nothing."""
    spec = importlib.util.spec_from_file_location("synth", SCRIPT)
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "BUILT", tmp_path)
    monkeypatch.setattr(script, "define_alone", lambda name, outdir: Path(outdir))
    report(tmp_path / "prod")
    return script


def report(folder: Path, *violations: str, warnings: Sequence[str] = ()) -> None:
    """As CDK writes it."""
    folder.mkdir(exist_ok=True)
    found = {"AwsSolutions": [*violations], "Construct Annotations": [*warnings]}
    written = {"pluginReports": [{"pluginName": name, "violations": some} for name, some in found.items()]}
    (folder / "validation-report.json").write_text(json.dumps(written))


def test_an_app_in_which_nothing_is_found_is_green(synth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth, "synthesise", report)
    assert synth.main(["prod"]) == 0


def test_a_warning_is_no_finding(
    synth: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(synth, "synthesise", partial(report, warnings=["Annotation::clarion:unpinned-base"]))
    assert synth.main(["prod"]) == 0
    assert "0 unexplained findings" in capsys.readouterr().out


def test_a_finding_is_not_green(synth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> None:
        report(folder, "a finding")
        raise RuntimeError("Validation failed")

    monkeypatch.setattr(synth, "synthesise", refused)
    assert synth.main(["prod"]) == 1


@pytest.mark.parametrize("reported", [True, False])
def test_an_app_that_can_not_be_made_is_not_green(
    synth: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, reported: bool
) -> None:
    def broken(folder: Path) -> None:
        if reported:
            report(folder)
        raise RuntimeError("a construct is wrong")

    monkeypatch.setattr(synth, "synthesise", broken)
    assert synth.main(["prod"]) == 1
    assert "a construct is wrong" in capsys.readouterr().out


def test_what_an_earlier_run_left_behind_is_not_counted(synth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth, "synthesise", lambda _: None)
    assert synth.main(["prod"]) == 1
