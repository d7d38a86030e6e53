"""Whatever a function waits for, it waits for less long than Lambda lets it run."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from clarion import aws, tables

FUNCTIONS = Path(__file__).parents[2] / "functions"
LIMITS = {"connect_timeout", "read_timeout"}


def without_limit(source: str) -> Iterator[str]:
    """Each call that makes a client of AWS without a configuration, or one without limits, or binds tables without them.

    Those of `clarion.aws` have theirs.
    """
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        given = {word.arg: word.value for word in call.keywords if word.arg}
        match call.func:
            case ast.Attribute(attr="create_client") | ast.Attribute(value=ast.Name(id="boto3")):
                limited = "config" in given
            case ast.Name(id="Config"):
                limited = given.keys() >= LIMITS
            case ast.Name(id="bind") | ast.Attribute(attr="bind"):
                limited = ast.unparse(given.get("seconds", call)) != "None"
            case _:
                continue
        if not limited:
            yield ast.unparse(call)


@pytest.mark.parametrize(
    ("source", "limited"),
    [
        ("boto3.client('sqs')", False),
        ("boto3.client('sqs', config=IN_TIME)", True),
        ("session.create_client('sqs')", False),
        ("Config(read_timeout=3)", False),
        ("Config(connect_timeout=1, read_timeout=3)", True),
        ("tables.bind(prefix, seconds=None)", False),
        ("tables.bind(prefix)", True),
        ("bind(prefix, seconds=1)", True),
        ("aws.sqs(session)", True),
    ],
)
def test_a_call_without_a_limit_is_found(source: str, *, limited: bool) -> None:
    assert list(without_limit(source)) == ([] if limited else [source])


def test_no_function_waits_for_aws_without_a_limit() -> None:
    modules = sorted(FUNCTIONS.rglob("*.py"))
    found = {str(path.relative_to(FUNCTIONS)): list(without_limit(path.read_text())) for path in modules}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_what_clarion_makes_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    session = aws.new_session()
    made = (aws.sqs(session), aws.firehose(session), aws.secrets(session), aws.s3(session), tables.bind("").client)
    for client in made:
        config = cast("Any", client).meta.config
        assert config.retries["total_max_attempts"] * max(config.connect_timeout, config.read_timeout) <= 6
