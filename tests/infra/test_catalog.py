"""The lake's tables for Athena, whose reserved words are those of
https://docs.aws.amazon.com/athena/latest/ug/reserved-words.html
"""

from collections.abc import Mapping
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from infra.catalog import OUTLIVED_DAYS
from infra.environments import PROD
from pipeline.columns import COLUMNS, LINKS, EventKind
from tests.grants import Resource, of_kind, readable

RESERVED = Path(__file__).parents[1] / "data" / "athena_reserved_words.txt"


@pytest.fixture(scope="module")
def tables(pipeline: Template) -> Mapping[str, Resource]:
    """By their names."""
    found = of_kind(pipeline.to_json()["Resources"], "AWS::Glue::Table").values()
    assert {table["DatabaseName"] for table in found} == {"clarion_prod_lake"}
    return {table["TableInput"]["Name"]: table["TableInput"] for table in found}


def test_every_kind_is_a_table_with_its_columns(tables: Mapping[str, Resource]) -> None:
    assert tables.keys() == {*EventKind}
    for kind, columns in COLUMNS.items():
        found = tables[kind]["StorageDescriptor"]["Columns"]
        assert [(each["Name"], each["Type"]) for each in found] == [(each.file_name, each.type) for each in columns]


def test_a_table_reads_the_lists_of_what_counts_and_never_a_folder(tables: Mapping[str, Resource]) -> None:
    for kind, table in tables.items():
        files = table["StorageDescriptor"]
        assert files["InputFormat"].endswith(".SymlinkTextInputFormat")
        assert readable(files["Location"]) == f"s3://DataLake/{LINKS}/{kind}/"
        place = readable(table["Parameters"]["storage.location.template"])
        assert place == f"s3://DataLake/{LINKS}/{kind}/day=${{day}}/hour=${{hour}}/"


def test_partitions_are_the_hours_of_the_days_of_which_no_listed_file_has_expired(
    tables: Mapping[str, Resource],
) -> None:
    for table in tables.values():
        properties = table["Parameters"]
        assert properties["projection.day.range"] == f"NOW-{PROD.lake_days - OUTLIVED_DAYS}DAYS,NOW"
        assert properties["projection.hour.values"].split(",") == [f"{hour:02}" for hour in range(24)]
        assert [each["Name"] for each in table["PartitionKeys"]] == ["day", "hour"]


def test_no_name_has_to_be_quoted_in_athena(tables: Mapping[str, Resource]) -> None:
    reserved = set(RESERVED.read_text().split())
    assert {"ORDER", "WINDOW"} <= reserved
    for name, table in tables.items():
        columns = [*table["StorageDescriptor"]["Columns"], *table["PartitionKeys"]]
        assert not {name.upper(), *(each["Name"].upper() for each in columns)} & reserved
