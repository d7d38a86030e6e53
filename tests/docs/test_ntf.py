"""What docs/ntf.md has an operator run finds what the tables have."""

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from clarion.channels import Channel
from clarion.networks.simplex.commands import client_id
from clarion.tokens import token_hash
from tests.pages import scripts, section

AWS = """#!{python}
import json, sys
print(json.dumps(sys.argv[1:]), file=open("calls", "a"))
print("\\t".join({answers}))
"""
TOKEN, IDS = "ab" * 32, ("cd" * 24, "ef" * 24)


@pytest.mark.parametrize("given", [TOKEN, TOKEN.upper()])
def test_a_device_s_token_leads_to_its_clients(tmp_path: Path, given: str) -> None:
    answers = [b64encode(client_id(one)).decode() for one in IDS]
    (tmp_path / "aws").write_text(AWS.format(python=sys.executable, answers=answers))
    (tmp_path / "aws").chmod(0o700)
    (script,) = scripts(section("docs/ntf.md", "Whose token it is"))
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=tmp_path,
        env=variables,
        input=f"{given}\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.split() == [client_id(one).hex() for one in IDS]
    words = json.loads((tmp_path / "calls").read_text())
    assert words[words.index("--table-name") + 1] == "clarion-prod-tokens"
    values = json.loads(words[words.index("--expression-attribute-values") + 1])
    assert values == {":hash": {"B": b64encode(token_hash(Channel.APNS, TOKEN)).decode()}}
