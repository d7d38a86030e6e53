"""The DynamoDB tables of `clarion.tables` and of the networks, on demand, recoverable to any second of the last 35 days."""

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from clarion.networks.needs import Table
from infra.config import EnvironmentConfig, Lasting
from infra.retention import removal

type Key = tuple[str, dynamodb.AttributeType]

TEXT, BYTES = dynamodb.AttributeType.STRING, dynamodb.AttributeType.BINARY
BY_CLIENT, BY_KEY = "by_client", "by_key"
TABLES = ("subscriptions", "tokens", "rules", "push_records", "rate_limits", "quotas", "leases", "wake_ups")
_TYPES = {"S": TEXT, "B": BYTES, "N": dynamodb.AttributeType.NUMBER}


class ClarionTables(Construct):
    """`by_name` has those of the networks too."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.by_name: dict[str, dynamodb.TableV2] = {}
        self.subscriptions = self._table("subscriptions", ("subscription_id", TEXT), ttl="ttl")
        self.tokens = self._table("tokens", ("token_hash", BYTES), ("holder", TEXT))
        self.rules = self._table(
            "rules", ("subscription_id", TEXT), ("rule_key", BYTES), stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
        )
        self.push_records = self._table("push_records", ("subscription_id", TEXT), ("envelope_id", BYTES), ttl="ttl")
        self.rate_limits = self._table("rate_limits", ("scope", BYTES), ("part", BYTES), ttl="ttl")
        self.quotas = self._table("quotas", ("quota", TEXT), ttl="ttl")
        self.leases = self._table("leases", ("name", TEXT), ttl="ttl")
        self.wake_ups = self._table("wake_ups", ("slot", TEXT), ("subscription_id", TEXT))
        self._add_indexes()

    @property
    def rules_stream_arn(self) -> str:
        arn = self.rules.table_stream_arn
        if arn is None:
            raise TypeError("the rules have no stream")
        return arn

    def add(self, table: Table) -> None:
        """A network's own."""
        partition, sort = _key_of(table.hash_key), _key_of(table.range_key) if table.range_key else None
        made = self._table(table.name, partition, sort, ttl=table.ttl)
        for index in table.indexes:
            made.add_global_secondary_index(
                index_name=index.name,
                partition_key=_attribute(_key_of(index.hash_key)),
                sort_key=_attribute(_key_of(index.range_key)) if index.range_key else None,
                projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            )

    def _add_indexes(self) -> None:
        self.subscriptions.add_global_secondary_index(
            index_name=BY_CLIENT,
            partition_key=_attribute(("client_id", BYTES)),
            sort_key=_attribute(("subscription_id", TEXT)),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        self.rules.add_global_secondary_index(
            index_name=BY_KEY,
            partition_key=_attribute(("key", BYTES)),
            sort_key=_attribute(("subscription_id", TEXT)),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=["condition"],
        )

    def _table(
        self,
        name: str,
        partition: Key,
        sort: Key | None = None,
        *,
        ttl: str | None = None,
        stream: dynamodb.StreamViewType | None = None,
    ) -> dynamodb.TableV2:
        self.by_name[name] = table = dynamodb.TableV2(
            self,
            name.title().replace("_", ""),
            table_name=f"{self._environment.prefix}{name}",
            partition_key=_attribute(partition),
            sort_key=_attribute(sort) if sort else None,
            billing=dynamodb.Billing.on_demand(),
            encryption=dynamodb.TableEncryptionV2.customer_managed_key(self._key),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=ttl,
            dynamo_stream=stream,
            deletion_protection=self._environment.data is Lasting.KEEP,
            removal_policy=removal(self._environment),
        )
        return table


def _key_of(key: tuple[str, str]) -> Key:
    name, kind = key
    return name, _TYPES[kind]


def _attribute(key: Key) -> dynamodb.Attribute:
    name, kind = key
    return dynamodb.Attribute(name=name, type=kind)
