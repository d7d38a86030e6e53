"""Synthesise what is meant for AWS, with every check, and say in the last line what the checks have found."""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from infra.app import define_alone, synthesise

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".build" / "synth"
CHECKS = "AwsSolutions"
"""What cdk-nag calls itself in CDK's report, which has warnings of the constructs beside it."""
RULES = f"{CHECKS}::"


def main(environments: list[str]) -> int:
    began = time.monotonic()
    found = accepted = broken = 0
    for name in environments:
        folder = BUILT / name
        made = _made(name, folder)
        violations, reasons = _violations(folder), _reasons(folder)
        print(f"{name}: {folder.relative_to(ROOT)}, {len(violations)} unexplained, {len(reasons)} accepted")
        found, accepted = found + len(violations), accepted + len(reasons)
        broken += not (made or violations)
    seconds = time.monotonic() - began
    failed = f"{broken} of {len(environments)} environments could not be checked; " if broken else ""
    print(
        f"cdk-nag AwsSolutions: {failed}{found} unexplained findings, {accepted} accepted with a reason; {seconds:.0f} s"
    )
    return 1 if found or broken else 0


def _made(name: str, folder: Path) -> bool:
    """Whether all of it could be synthesised and checked; CDK raises the same for what is wrong and what is found."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        synthesise(define_alone(name, outdir=str(folder)))
    except RuntimeError as error:
        print(error)
        return False
    return _report(folder).is_file()


def _report(folder: Path) -> Path:
    return folder / "validation-report.json"


def _violations(folder: Path) -> list[Any]:
    """Cdk-nag's; CDK has shown what others warn of."""
    if not _report(folder).is_file():
        return []
    reports = json.loads(_report(folder).read_text())["pluginReports"]
    return [violation for report in reports if report["pluginName"] == CHECKS for violation in report["violations"]]


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
