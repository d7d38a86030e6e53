"""The commands of AWS's command line that the pages give are such, with options that their operations have."""

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from awscli.clidriver import create_clidriver

from tests.pages import ORDERED, PAGES, scripts, text

AWS = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]), file=open("calls", "a"))
awaited = {"describe-backup": "AVAILABLE", "describe-table": "ACTIVE", "list-stacks": ""}
uris = [output for output in ("Lake", "Oversize") if f"=='{output}'" in sys.argv[-1]]
name = "s3://any-bucket" if uris else "any-name-that-is-as-long-as-any-arn-must-be"
print(awaited.get(sys.argv[2], name))
"""
"""Notes its words, and answers with what the page's next command may be given, or waits for."""
PATIENCE_S = 300
JQ = """#!/bin/sh
echo '{"sparkSubmit": {"entryPoint": "any"}}'
"""
OTHERS = ("clarion", "cosign", "curl", "git", "make", "python", "rm", "sleep")
STRUCTURES = {
    "--distribution-config": {
        "CallerReference": "any",
        "Comment": "any",
        "Enabled": True,
        "Origins": {"Quantity": 1, "Items": [{"Id": "any", "DomainName": "any"}]},
        "DefaultCacheBehavior": {"TargetOriginId": "any", "ViewerProtocolPolicy": "https-only"},
    },
    "--cli-input-json": {
        "Name": "any",
        "ScheduleExpression": "rate(5 minutes)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": "any", "RoleArn": "any"},
    },
}
"""Options that take more than text, with what has all that they need."""


class ReachedError(Exception):
    """AWS would have been asked."""


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    """In words, as a shell reads them in which no other program does anything."""
    programs = {"aws": AWS, "jq": JQ, **dict.fromkeys(OTHERS, "#!/bin/sh\n")}
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o700)
    given = ["\n".join(scripts(text(page))) for page in PAGES]
    # Within a line of another page, they may leave out what they need.
    given += [command for page in ORDERED for command in re.findall(r"`(aws .*?)`", text(page))]
    for script in given:
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        command = ["/bin/bash", "-c", script]
        subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False, timeout=PATIENCE_S)
    return [json.loads(call) for call in sorted(set((tmp_path / "calls").read_text().splitlines()))]


def test_each_command_would_ask_aws(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    asked = list[str]()

    def ask(model: Any, **_: object) -> None:
        asked.append(model.name)
        raise ReachedError

    driver = create_clidriver()
    driver.session.register("before-call", ask)
    for command in commands:
        before = len(asked)
        driver.main(_without_files(command))
        assert len(asked) > before, command
    assert {"put-secret-value", "restore-table-to-point-in-time", "update-schedule"} <= {
        command[1] for command in commands
    }


def _without_files(command: list[str]) -> list[str]:
    """What they would read, of files or of another program, is nowhere here."""
    files = ["any" if word.startswith("file://") else word for word in command]
    return [json.dumps(STRUCTURES[option]) if option in STRUCTURES else word for option, word in pairwise(["", *files])]
