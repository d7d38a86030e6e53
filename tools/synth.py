"""Synthesise what is meant for AWS, with every check, and say in the last line what the checks have found."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from infra.app import define_alone, synthesise

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".build" / "synth"
RULES = "AwsSolutions::"


def main(environments: list[str]) -> int:
    began = time.monotonic()
    found = accepted = 0
    for name in environments:
        folder = BUILT / name
        try:
            synthesise(define_alone(name, outdir=str(folder)))
        except RuntimeError as error:
            print(error)
        violations, reasons = _violations(folder), _reasons(folder)
        print(f"{name}: {folder.relative_to(ROOT)}, {len(violations)} unexplained, {len(reasons)} accepted")
        found, accepted = found + len(violations), accepted + len(reasons)
    seconds = time.monotonic() - began
    print(f"cdk-nag AwsSolutions: {found} unexplained findings, {accepted} accepted with a reason; {seconds:.0f} s")
    return 1 if found else 0


def _violations(folder: Path) -> list[Any]:
    reports = json.loads((folder / "validation-report.json").read_text())["pluginReports"]
    return [violation for report in reports for violation in report["violations"]]


def _reasons(folder: Path) -> list[str]:
    """What the constructs acknowledge, as CDK notes it in their metadata."""
    notes = [
        note
        for file in folder.glob("*.metadata.json")
        for some in json.loads(file.read_text()).values()
        for note in some
        if note["type"] == "aws:cdk:acknowledged-rules"
    ]
    return [rule for note in notes for rule in note["data"] if rule.startswith(RULES)]


if __name__ == "__main__":
    sys.exit(main(["prod", "dev"]))
