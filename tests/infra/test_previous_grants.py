"""All versions of a function share a role, and its policies change before the version that is called does.

So the version before runs by this one's policies for minutes, and longer if this one is rolled back.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from aws_cdk.assertions import Template

from tests import previous
from tests.grants import Call, Permissions, permissions

CHANGED = (*previous.FUNCTIONS, "functions/ingest", "functions/ntf", "infra")
GIVEN_UP: Mapping[Call, str] = {}
"""Grants that the version before has although its code does not use them any more, and since when not."""
GRANTS = """
import json
from infra.app import define_alone
from tests.grants import permissions
from tests.infra.templates import merged

granted = permissions(merged(define_alone("prod", builtin_cloud_formation_validation=False)))
print(json.dumps({role: {action: sorted(names) for action, names in of.items()} for role, of in granted.items()}))
"""


@pytest.fixture(scope="module")
def granted_before(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Permissions]:
    """By the version before this one, in production."""
    checkout = previous.unpack(tmp_path_factory.mktemp("before"), changed=CHANGED, deployed=True)
    (checkout / ".build").mkdir()
    (previous.ROOT / ".build" / "layers").mkdir(parents=True, exist_ok=True)
    for tools in (".tools", ".build/layers"):
        (checkout / tools).symlink_to(previous.ROOT / tools)
    packages = os.pathsep.join(map(str, (checkout, checkout / "functions", checkout / "layers" / "core")))
    done = subprocess.run(
        [sys.executable, "-c", GRANTS],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": packages},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: Mapping[str, Permissions] = json.loads(done.stdout)
    return found


def test_no_role_loses_a_grant_that_the_version_before_may_use(
    granted_before: Mapping[str, Permissions], prod: Template
) -> None:
    now = permissions(prod)
    lost = {
        Call(role, action, resource)
        for role in granted_before.keys() & now.keys()
        for action, resources in granted_before[role].items()
        for resource in {*resources} - now[role].get(action, set())
    }

    assert lost - GIVEN_UP.keys() == set()
