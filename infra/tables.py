"""The DynamoDB tables of `clarion.tables` and of the networks, on demand, recoverable to any second of the last 35 days."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from clarion.networks import network
from clarion.networks.needs import Table
from infra.config import EnvironmentConfig, Lasting
from infra.retention import removal

type Key = tuple[str, dynamodb.AttributeType]

TEXT, BYTES = dynamodb.AttributeType.STRING, dynamodb.AttributeType.BINARY
BY_CLIENT, BY_KEY = "by_client", "by_key"
TABLES = ("subscriptions", "tokens", "rules", "push_records", "rate_limits", "quotas", "leases", "wake_ups")
_TYPES = {"S": TEXT, "B": BYTES, "N": dynamodb.AttributeType.NUMBER}


class ClarionTables(Construct):
    """Each table's ARN, which follows from its name: other stacks need no reference. `by_name` has the networks' too."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.by_name: dict[str, str] = {}
        by_client = _index(BY_CLIENT, ("client_id", BYTES), ("subscription_id", TEXT))
        by_key = _index(BY_KEY, ("key", BYTES), ("subscription_id", TEXT), more=["condition"])
        images = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
        self.subscriptions = self._table("subscriptions", ("subscription_id", TEXT), ttl="ttl", indexes=[by_client])
        self.tokens = self._table("tokens", ("token_hash", BYTES), ("holder", TEXT))
        self.rules = self._table(
            "rules", ("subscription_id", TEXT), ("rule_key", BYTES), stream=images, indexes=[by_key]
        )
        self.push_records = self._table("push_records", ("subscription_id", TEXT), ("envelope_id", BYTES), ttl="ttl")
        self.rate_limits = self._table("rate_limits", ("scope", BYTES), ("part", BYTES), ttl="ttl")
        self.quotas = self._table("quotas", ("quota", TEXT), ttl="ttl")
        self.leases = self._table("leases", ("name", TEXT), ttl="ttl")
        self.wake_ups = self._table("wake_ups", ("slot", TEXT), ("subscription_id", TEXT))
        for name in environment.networks:
            for table in network(name).needs.tables:
                self._add(table)

    def _add(self, table: Table) -> None:
        """A network's own."""
        indexes = [
            _index(
                index.name,
                _key_of(index.hash_key),
                _key_of(index.range_key) if index.range_key else None,
                more=list(index.more),
            )
            for index in table.indexes
        ]
        partition, sort = _key_of(table.hash_key), _key_of(table.range_key) if table.range_key else None
        self._table(table.name, partition, sort, ttl=table.ttl, indexes=indexes)

    def _table(
        self,
        name: str,
        partition: Key,
        sort: Key | None = None,
        *,
        ttl: str | None = None,
        stream: dynamodb.StreamViewType | None = None,
        indexes: Sequence[dynamodb.GlobalSecondaryIndexPropsV2] = (),
    ) -> str:
        full_name = f"{self._environment.prefix}{name}"
        dynamodb.TableV2(
            self,
            name.title().replace("_", ""),
            table_name=full_name,
            partition_key=_attribute(partition),
            sort_key=_attribute(sort) if sort else None,
            billing=dynamodb.Billing.on_demand(),
            encryption=dynamodb.TableEncryptionV2.customer_managed_key(self._key),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=ttl,
            dynamo_stream=stream,
            global_secondary_indexes=[*indexes],
            deletion_protection=self._environment.data is Lasting.KEEP,
            removal_policy=removal(self._environment),
        )
        self.by_name[name] = Stack.of(self).format_arn(service="dynamodb", resource="table", resource_name=full_name)
        return self.by_name[name]


def _index(
    name: str, partition: Key, sort: Key | None, *, more: list[str] | None = None
) -> dynamodb.GlobalSecondaryIndexPropsV2:
    """It holds the keys, and `more`."""
    kind = dynamodb.ProjectionType.INCLUDE if more else dynamodb.ProjectionType.KEYS_ONLY
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        partition_key=_attribute(partition),
        sort_key=_attribute(sort) if sort else None,
        projection_type=kind,
        non_key_attributes=more or None,
    )


def _key_of(key: tuple[str, str]) -> Key:
    name, kind = key
    return name, _TYPES[kind]


def _attribute(key: Key) -> dynamodb.Attribute:
    name, kind = key
    return dynamodb.Attribute(name=name, type=kind)
