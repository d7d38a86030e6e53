"""What is remembered is what moto and botocore compute."""

from types import ModuleType

import pytest
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.responses import DynamoHandler
from moto.sqs.models import SQSBackend, sqs_backends
from moto.sqs.responses import SQSResponse

from tests import remembered

ARGUMENTS: dict[str, list[tuple[object, ...]]] = {
    "camelcase_to_underscores": [("BatchWriteItem",), ("QueueURL",), ("",)],
    "method_names_from_class": [(SQSResponse,), (DynamoHandler,)],
    "sanitize_user_agent_string_component": [("a#b c", True), ("a#b c", False)],
}
"""By the function's name."""
ACCOUNT, REGION = "123456789012", "us-east-1"


@pytest.mark.parametrize(("module", "name"), remembered.FUNCTIONS)
def test_a_function_answers_the_same_twice(module: ModuleType, name: str) -> None:
    ours = getattr(module, name)

    for arguments in ARGUMENTS[name] * 2:
        assert ours(*arguments) == ours.__wrapped__(*arguments)


@pytest.mark.parametrize(
    "backend", [dynamodb_backends[ACCOUNT][REGION], sqs_backends[ACCOUNT][REGION]], ids=["dynamodb", "sqs"]
)
def test_a_service_has_its_own_addresses(backend: DynamoDBBackend | SQSBackend) -> None:
    assert backend.urls == remembered.MOTOS_URLS.fget(backend)
    assert backend.urls is backend.urls
