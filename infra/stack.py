"""Clarion's stack: it wires the constructs together. What each component may do is stated with its function."""

from aws_cdk import CfnOutput, CliCredentialsStackSynthesizer, DefaultStackSynthesizer, IStackSynthesizer, Stack
from aws_cdk import Environment as Account
from aws_cdk import aws_kms as kms
from constructs import Construct

from clarion.networks import network
from clarion.networks.needs import Function
from infra.api import HttpApi, public_paths
from infra.api_functions import ApiFunction, AuthorizerFunction
from infra.config import EnvironmentConfig, Lasting
from infra.edge import Edge
from infra.findings import accept
from infra.functions import Foundation, given
from infra.ingest import IngestRole, IngestService
from infra.lake import LakeStorage
from infra.layers import Layers
from infra.monitoring import Alarms, Dashboard
from infra.networks import add_functions
from infra.queues import Queues
from infra.retention import removal
from infra.schedule import ScheduleFunction
from infra.secrets import Secrets
from infra.tables import ClarionTables
from infra.workers import CleanupFunction, DeliveriesFunction, DispatchFunction, LateEventsFunction, MatchFunction


class ClarionStack(Stack):
    def __init__(self, scope: Construct, *, environment: EnvironmentConfig) -> None:
        super().__init__(
            scope,
            f"{environment.prefix}stack",
            env=Account(account=environment.account, region=environment.region),
            description="Clarion: what networks show in, push notifications out",
            synthesizer=synthesizer(environment.assets_bucket),
            termination_protection=environment.data is Lasting.KEEP,
        )
        self._environment = environment
        self.foundation = self._foundation()
        self._consumers()
        self.http = self._api()
        self.edge = self._edge()
        self.ingest_role = IngestRole(self, "IngestRole", foundation=self.foundation)
        self.ingest = self._ingest()
        if environment.monitored:
            self._monitor()
        self._outputs()

    def _foundation(self) -> Foundation:
        environment = self._environment
        # One key for what is private: push tokens, provider keys, and who is notified of whose envelopes.
        kept = environment.data is Lasting.KEEP
        key = kms.Key(
            self,
            "Key",
            alias=f"alias/{environment.prefix}data",
            enable_key_rotation=kept,
            removal_policy=removal(environment),
        )
        if not kept:
            accept(
                key,
                "KMS5",
                "What it encrypts is deleted with the stack, and each kept rotation costs as much as it does",
            )
        tables = ClarionTables(self, "Tables", environment=environment, key=key)
        for name in environment.networks:
            for table in network(name).needs.tables:
                tables.add(table)
        return Foundation(
            environment=environment,
            key=key,
            tables=tables,
            queues=Queues(self, "Queues", environment=environment),
            lake=LakeStorage(self, "Lake", environment=environment, key=key),
            secrets=Secrets(self, "Secrets", environment=environment, key=key),
            layers=Layers(self, "Layers", platform=environment.platform),
        )

    def _consumers(self) -> None:
        self._match()
        for channel in self._environment.channels:
            DispatchFunction(self, channel, foundation=self.foundation)
        CleanupFunction(self, foundation=self.foundation)
        DeliveriesFunction(self, foundation=self.foundation)
        LateEventsFunction(self, foundation=self.foundation)
        self.foundation.lake.send_new_files_to(self.foundation.queues.deliveries.queue)
        ScheduleFunction(self, foundation=self.foundation)

    def _match(self) -> None:
        match, pages, queues = self._environment.match, self._environment.pages, self.foundation.queues
        everybody = match.concurrency + pages.concurrency
        for name, source, consumer, concurrency in (
            ("Match", queues.envelopes, match, match.concurrency),
            ("Pages", queues.pages, pages, everybody),
        ):
            MatchFunction(
                self, name, foundation=self.foundation, source=source, consumer=consumer, concurrency=concurrency
            )

    def _api(self) -> HttpApi:
        functions = {name: add_functions(self, name, foundation=self.foundation) for name in self._environment.networks}
        return HttpApi(
            self,
            "Http",
            environment=self._environment,
            authorizer=AuthorizerFunction(self, foundation=self.foundation),
            function=ApiFunction(self, foundation=self.foundation),
            routers={name: own[Function.ROUTER] for name, own in functions.items() if Function.ROUTER in own},
        )

    def _edge(self) -> Edge | None:
        per_address, secret = self._environment.api.per_address, self.foundation.secrets.origin
        if not (per_address and secret):
            return None
        return Edge(
            self,
            "Edge",
            environment=self._environment,
            per_address=per_address,
            api_id=self.http.api.api_id,
            origin_secret=secret,
            public=public_paths(self._environment),
        )

    def _ingest(self) -> IngestService | None:
        ingest = self._environment.ingest
        if ingest is None:
            return None
        return IngestService(self, "Ingest", foundation=self.foundation, ingest=ingest, role=self.ingest_role)

    def _monitor(self) -> None:
        environment, api_id = self._environment, self.http.api.api_id
        alarms = Alarms(self, "Alarms", environment=environment, api_id=api_id, key=self.foundation.key)
        Dashboard(self, "Dashboard", environment=environment, api_id=api_id, alarms=alarms)
        CfnOutput(self, "AlarmTopic", value=alarms.topic.topic_arn)

    @property
    def _address(self) -> str | None:
        """What the domain's name has to lead to, as an alias or CNAME record."""
        if self.edge and self._environment.api.domain:
            return self.edge.distribution.distribution_domain_name
        return self.http.address

    def _outputs(self) -> None:
        queues, lake, secrets = self.foundation.queues, self.foundation.lake, self.foundation.secrets
        first = self._environment.apps[0]
        outputs = {
            "ApiId": self.http.api.api_id,
            "ApiUrl": self.edge.url if self.edge else self.http.url,
            "TablePrefix": self._environment.prefix,
            **{f"{name.title().replace('-', '')}QueueUrl": url for name, url in queues.urls.items()},
            "LakeBucket": lake.bucket.bucket_name,
            "OversizeBucket": lake.oversize.bucket_name,
            "EventsStream": lake.events.delivery_stream_name,
            **{f"{provider.title()}SecretId": apps[first].key for provider, apps in secrets.providers.items()},
            "IngestRoleArn": self.ingest_role.role_arn,
            **given(JwtSecretId=secrets.jwt, ApiAddress=self._address),
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)


def synthesizer(assets_bucket: str | None) -> IStackSynthesizer:
    """How a stack's code gets to AWS."""
    if assets_bucket is None:
        return DefaultStackSynthesizer()
    return CliCredentialsStackSynthesizer(file_assets_bucket_name=assets_bucket)
