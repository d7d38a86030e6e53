"""The lake's kinds as tables for Athena: of the files that count, and no others.

An hour is a partition, which Athena computes from the table's properties, so that nobody has to add one. Below it lies
one object that lists the hour's data files, written with each commit (`pipeline.lake.commits`): the format in which
S3's own inventories are asked, too.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-athena-query.html
https://docs.aws.amazon.com/athena/latest/ug/partition-projection-supported-types.html
"""

from aws_cdk import Aws
from aws_cdk import aws_glue as glue
from constructs import Construct

from infra.config import EnvironmentConfig
from pipeline.columns import COLUMNS, LINKS, Column, EventKind

HOURS = ",".join(f"{hour:02}" for hour in range(24))
LISTED = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
OUTLIVED_DAYS = 17
"""By so many days a list may outlive the first files that it names: it is written again with each late one, which comes
within 15 days. On the days before the first file expires nothing that is listed is missing."""
WRITTEN = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


class Catalog(Construct):
    """A database with a table for each kind."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, lake: str) -> None:
        super().__init__(scope, construct_id)
        self._lake, self._days = lake, environment.lake_days
        self.name = f"{environment.prefix}lake".replace("-", "_")
        described = glue.CfnDatabase.DatabaseInputProperty(
            name=self.name, description="What Clarion did, by docs/lake.md"
        )
        self._database = glue.CfnDatabase(self, "Database", catalog_id=Aws.ACCOUNT_ID, database_input=described)
        for kind in EventKind:
            self._table(kind)

    def _table(self, kind: EventKind) -> None:
        described = glue.CfnTable.TableInputProperty(
            name=kind,
            table_type="EXTERNAL_TABLE",
            parameters=self._parameters(kind),
            partition_keys=[_column(name, "string") for name in ("day", "hour")],
            storage_descriptor=self._files(kind, COLUMNS[kind]),
        )
        table = glue.CfnTable(
            self, kind.title(), catalog_id=Aws.ACCOUNT_ID, database_name=self.name, table_input=described
        )
        table.add_resource_dependency(self._database)

    def _files(self, kind: EventKind, columns: tuple[Column, ...]) -> glue.CfnTable.StorageDescriptorProperty:
        return glue.CfnTable.StorageDescriptorProperty(
            columns=[_column(each.file_name, each.type) for each in columns],
            location=self._place(kind),
            input_format=LISTED,
            output_format=WRITTEN,
            serde_info=glue.CfnTable.SerdeInfoProperty(serialization_library=PARQUET),
        )

    def _parameters(self, kind: EventKind) -> dict[str, str]:
        return {
            "EXTERNAL": "TRUE",
            "projection.enabled": "true",
            "projection.day.type": "date",
            "projection.day.format": "yyyy-MM-dd",
            "projection.day.range": f"NOW-{self._days - OUTLIVED_DAYS}DAYS,NOW",
            "projection.hour.type": "enum",
            "projection.hour.values": HOURS,
            "storage.location.template": f"{self._place(kind)}day=${{day}}/hour=${{hour}}/",
        }

    def _place(self, kind: EventKind) -> str:
        return f"{self._lake}/{LINKS}/{kind}/"


def _column(name: str, type_: str) -> glue.CfnTable.ColumnProperty:
    return glue.CfnTable.ColumnProperty(name=name, type=type_)
