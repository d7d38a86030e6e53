"""The commands of make that the pages give an operator run as they are written."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest
from aws_cdk import App

from infra.environments import chosen
from local.emulator import started
from tests.pages import PAGES, text

ROOT = Path(__file__).parents[2]
TARGETS = ("bootstrap", "diff", "deploy", "destroy", "import")


def documented() -> Iterator[str]:
    """In a line of their own, or within one; those that name nothing are spoken of, not given."""
    command = rf"make (?:{'|'.join(TARGETS)})[^`]*?=(?:\\\n|'[^'`]*'|[^`\n])*"
    for page in PAGES:
        yield from re.findall(rf"(?:^ *|\$ |`)({command})(?=[`\n])", text(page), re.MULTILINE)


def expanded(command: str) -> list[str]:
    """What make would run of CDK, in words."""
    printed = run(command.replace("make ", "make --dry-run ", 1))
    words = shlex.split(printed.splitlines()[-1])
    return words[words.index("cdk") :]


def run(command: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """In a shell, as if no make ran the tests."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    words = ["/bin/bash", "-c", command]
    environment = {**ours, **variables}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def context_of(words: list[str]) -> Mapping[str, str]:
    given = (word for option, word in pairwise(words) if option == "--context")
    return dict(word.split("=", 1) for word in given)


def test_the_pages_have_each_command() -> None:
    assert {command.split()[1] for command in documented()} >= {"bootstrap", "diff", "deploy"}


@pytest.mark.parametrize("command", [*documented()])
def test_a_command_is_one_of_cdk_s_for_an_environment_that_is_complete(command: str) -> None:
    cdk, verb, *options = expanded(command)
    assert (cdk, verb) == ("cdk", command.split()[1])
    if verb == "bootstrap":
        account = f"aws://111111111111/{command.rpartition('REGION=')[2]}"
        assert options == ["--termination-protection", account]
    else:
        assert options[0] == "--all" or re.fullmatch(r"clarion-\w+-(data|stack|pipeline)", options[0])
        assert chosen(App(context=context_of(options)).node).stage == context_of(options)["environment"]


def test_an_account_is_prepared_from_the_project_s_folder() -> None:
    with started("test-bootstrap") as emulator:
        run("make bootstrap ACCOUNT=000000000000 REGION=us-east-1", emulator.variables)
        cloudformation = emulator.session.client("cloudformation", endpoint_url=emulator.endpoint)
        assert cloudformation.describe_stacks(StackName="CDKToolkit")["Stacks"]
        # It has something to say all the same: the emulator has no Service Quotas.
        doctor = run('make doctor STAGE=dev CONTEXT="node_urls=wss://node.example.org" || true', emulator.variables)
        assert "✓ bootstrap: version" in doctor


@pytest.mark.parametrize("target", TARGETS)
def test_without_an_account_or_environment_nothing_is_run(target: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        expanded(f"make {target}")
    assert "is named" in refusal.value.stderr


@pytest.mark.parametrize("given", ["STAGE=\"dev' ; touch taken '\"", "STAGE=dev CONTEXT=\"a=b' ; touch taken '\""])
def test_nothing_that_is_given_becomes_a_command_of_its_own(given: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        expanded(f"make deploy {given}")
    assert "holds a quote" in refusal.value.stderr


def test_a_stage_is_one_word_whatever_is_in_it() -> None:
    assert context_of(expanded("make deploy STAGE='dev; touch taken'")) == {"environment": "dev; touch taken"}


@pytest.mark.parametrize("target", [*TARGETS, "doctor"])
def test_to_deploy_takes_the_command_line_and_no_other_packages_of_developers(target: str) -> None:
    """Their installation would run with the account's credentials."""
    printed = run(f"make --dry-run --always-make {target} STAGE=dev ACCOUNT=1 REGION=any STACKS=any")
    assert set(re.findall(r"cd (\S+) && .* ci ", printed)) == {"tools/cdk"}
    assert all("--ignore-scripts" in line for line in printed.splitlines() if " ci " in line)


def test_further_options_are_cdk_s() -> None:
    assert expanded("make deploy STAGE=dev OPTIONS=--no-rollback")[-1] == "--no-rollback"


def test_the_doctor_goes_by_the_templates_that_would_be_deployed() -> None:
    context = "node_urls=wss://node.example.org alarm_email=ops@example.org"
    printed = run(f'make --dry-run doctor STAGE=prod CONTEXT="{context}" OPTIONS=--try-providers')
    (cdk, verb, *options), doctor = (shlex.split(line) for line in printed.splitlines()[-2:])
    assert (cdk, verb) == ("cdk", "synth")
    assert chosen(App(context=context_of(options)).node).stage == "prod"
    assert doctor == ["clarion", "doctor", "--templates", options[options.index("--output") + 1], "--try-providers"]
