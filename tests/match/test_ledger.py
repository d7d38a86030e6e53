"""No path may cost more than docs/cost.md says."""

from pathlib import Path

import boto3
import pytest

from tests.match.ledger import PAGE, PATHS, Cost, read_table
from tests.match.ledger import Path as CostPath
from tests.match.meter import meter
from tests.match.scene import Scene

COST_PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


@pytest.fixture(scope="module")
def documented() -> dict[str, Cost]:
    return read_table(COST_PAGE.read_text())


def test_the_page_has_every_path(documented: dict[str, Cost]) -> None:
    assert list(documented) == [path.name for path in PATHS]


@pytest.mark.parametrize("path", [path for path in PATHS if not path.long], ids=lambda path: path.name)
def test_no_path_costs_more_than_the_page_says(scene: Scene, documented: dict[str, Cost], path: CostPath) -> None:
    scene.settings = scene.settings.model_copy(update={"fan_out_page": PAGE})
    measured = path.cost(scene.elsewhere())
    for figure, limit in zip(measured, documented[path.name], strict=True):
        assert figure <= limit + 0.005


def test_a_request_of_unknown_price_is_not_taken_for_free(scene: Scene) -> None:
    with meter.running(), pytest.raises(NotImplementedError, match="GetQueueAttributes"):
        boto3.client("sqs").get_queue_attributes(QueueUrl=scene.settings.queue_url)
