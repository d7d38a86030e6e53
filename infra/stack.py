"""Clarion's stack: it wires the constructs together and grants each function what it needs, and no more."""

import json
from collections.abc import Iterable, Mapping

from aws_cdk import CfnOutput, CliCredentialsStackSynthesizer, DefaultStackSynthesizer, IStackSynthesizer, Stack
from aws_cdk import Environment as Account
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from clarion.channels import Channel
from infra.alarms import Alarms
from infra.api import HttpApi, public_paths
from infra.config import App, Consumer, Environment, Ingest, Lasting, Size
from infra.dashboard import Dashboard
from infra.edge import Edge
from infra.findings import accept, objects_of
from infra.functions import RoomFunction
from infra.ingest import IngestService
from infra.lake import SEEN, STATEMENTS, Lake
from infra.layers import Layers
from infra.permissions import allow, allow_index, allow_key
from infra.queues import Pair, Queues
from infra.retention import removal
from infra.secrets import ProviderSecrets, Secrets
from infra.tables import BY_CLIENT, BY_SENDER_TOPIC, Tables


class ClarionStack(Stack):
    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        super().__init__(
            scope,
            f"{environment.prefix}stack",
            env=Account(account=environment.account, region=environment.region),
            description="Clarion: statements in, push notifications out",
            synthesizer=_synthesizer(environment.assets_bucket),
            termination_protection=environment.data is Lasting.KEEP,
        )
        self._environment = environment
        self.key = self._key()
        self.tables = Tables(self, "Tables", environment=environment, key=self.key)
        self.queues = Queues(self, "Queues", environment=environment)
        self.lake = Lake(self, "Lake", environment=environment, key=self.key)
        self.secrets = Secrets(self, "Secrets", environment=environment, key=self.key)
        self.layers = Layers(self, "Layers", platform=environment.platform)
        self.match = self._match()
        self.apns = self._dispatch(Channel.APNS, environment.apns, self.queues.apns, self.secrets.apns)
        self.voip = self._dispatch(Channel.VOIP, environment.voip, self.queues.voip, self.secrets.apns)
        self.fcm = self._dispatch(Channel.FCM, environment.fcm, self.queues.fcm, self.secrets.fcm)
        self.cleanup = self._cleanup()
        self.authorizer = self._authorizer()
        self.api = self._api()
        self.http = HttpApi(self, "Http", environment=environment, function=self.api, authorizer=self.authorizer)
        self.edge = self._edge()
        self.ingest_role = self._ingest_role()
        self.ingest = self._ingest(environment.ingest) if environment.ingest else None
        if environment.monitored:
            self._watch()
        self._tell()

    def _key(self) -> kms.Key:
        """One key for what is private: push tokens, provider keys, and who is told of whose statements."""
        return kms.Key(
            self,
            "Key",
            alias=f"alias/{self._environment.prefix}data",
            enable_key_rotation=True,
            removal_policy=removal(self._environment),
        )

    def _match(self) -> RoomFunction:
        queues, tables = self.queues, self.tables
        fed = (queues.apns.queue, queues.voip.queue, queues.fcm.queue, queues.statements.queue, queues.statements.dead)
        function = self._function(
            "Match",
            "match.handler.handler",
            self._environment.match.size,
            {
                **self._common,
                **self._environment.matching.as_settings(),
                "envelopes_queue_url": queues.statements.queue.queue_url,
                "apns_queue_url": queues.apns.queue.queue_url,
                "voip_queue_url": queues.voip.queue.queue_url,
                "fcm_queue_url": queues.fcm.queue.queue_url,
                "oversize_bucket": self.lake.oversize.bucket_name,
                "dead_letter_url": queues.statements.dead.queue_url,
                "max_receives": str(self._environment.match.receives),
                "concurrency": str(self._environment.match.concurrency),
            },
            feeds_itself=True,
        )
        function.consume(queues.statements.queue, self._environment.match)
        allow(function, "sqs: SendMessage", *(queue.queue_arn for queue in fed))
        allow_index(function, tables.rules, BY_SENDER_TOPIC)
        allow(function, "dynamodb: BatchGetItem", tables.subscriptions.table_arn, tables.rules.table_arn)
        allow(function, "dynamodb: PutItem", tables.push_records.table_arn)
        allow(function, "dynamodb: GetItem PutItem Query", tables.rate_limits.table_arn)
        # Without it, S3 answers for an object that is missing as it does for one that may not be read.
        allow(function, "s3: ListBucket", self.lake.oversize.bucket_arn)
        allow(function, "s3: GetObject", self.lake.oversize.arn_for_objects(f"{STATEMENTS}*"))
        accept(function.own_role, objects_of(self.lake.oversize, STATEMENTS), "Receipts name the objects")
        allow(function, "firehose: PutRecordBatch", self.lake.events.delivery_stream_arn)
        allow_key(function, self.key, "dynamodb")
        allow_key(function, self.key, "s3", "Decrypt")
        return function

    def _dispatch(
        self, notify_type: Channel, consumer: Consumer, pair: Pair, apps: Mapping[App, ProviderSecrets]
    ) -> RoomFunction:
        environment, tables = self._environment, self.tables
        function = self._function(
            notify_type.title(),
            "dispatch.handler.handler",
            consumer.size,
            {
                **self._common,
                **environment.providers.as_settings(),
                "queue_url": pair.queue.queue_url,
                "dead_letter_url": pair.dead.queue_url,
                **({"held_url": pair.held.queue_url} if pair.held else {}),
                "cleanup_queue_url": self.queues.cleanup.queue.queue_url,
                "notify_type": notify_type,
                "max_receives": str(consumer.receives),
                **self._apps(apps),
            },
            feeds_itself=pair.held is not None,
        )
        function.consume(pair.queue, consumer)
        if pair.held:
            function.consume(pair.held, consumer.of_held)
            allow(function, "sqs: SendMessage", pair.held.queue_arn)
        allow(function, "sqs: SendMessage", pair.dead.queue_arn, self.queues.cleanup.queue.queue_arn)
        allow(function, "dynamodb: BatchGetItem UpdateItem", tables.subscriptions.table_arn)
        allow(function, "dynamodb: DeleteItem", tables.tokens.table_arn)
        allow(function, "firehose: PutRecordBatch", self.lake.events.delivery_stream_arn)
        allow_key(function, self.key, "dynamodb")
        self._allow_secrets(function, *_arns(apps.values()))
        return function

    def _apps(self, apps: Mapping[App, ProviderSecrets]) -> dict[str, str]:
        """The first app spelled out, and further ones as JSON; see `DispatchSettings`."""
        (first, secrets), *further = apps.items()
        return {
            "app_name": first.name,
            "provider_secret_id": secrets.key,
            **_set(sandbox_secret_id=secrets.sandbox),
            "bundle_id": first.bundle_id or "",
            "alert_title": first.alert_title,
            **({"apps": self.to_json_string([_further(*each) for each in further])} if further else {}),
        }

    def _api(self) -> RoomFunction:
        tables, lake = self.tables, self.lake
        api = self._environment.api
        settings = {
            **self._common,
            **api.allowance.as_settings(),
            "cleanup_queue_url": self.queues.cleanup.queue.queue_url,
            "apps": json.dumps(self._app_names),
            **self._login,
            **self._direct_push,
            **_set(origin_secret_id=self._required_origin, serve_docs=None if api.serve_docs else "false"),
        }
        function = self._function("Api", "api.handler.handler", api.size, settings, reserved=api.reserved)
        allow(function, "dynamodb: BatchGetItem PutItem UpdateItem DeleteItem", tables.subscriptions.table_arn)
        allow_index(function, tables.subscriptions, BY_CLIENT)
        allow(function, "dynamodb: BatchGetItem PutItem DeleteItem", tables.tokens.table_arn)
        allow(function, "dynamodb: Query BatchGetItem BatchWriteItem PutItem DeleteItem", tables.rules.table_arn)
        allow(function, "dynamodb: UpdateItem", tables.quotas.table_arn)
        allow(function, "sqs: SendMessage", self.queues.cleanup.queue.queue_arn)
        allow(function, "firehose: PutRecordBatch", lake.events.delivery_stream_arn)
        allow_key(function, self.key, "dynamodb")
        providers = self._secrets_of_first_app if self._direct_push else ()
        self._allow_secrets(function, *_arns(providers), self.secrets.login, self._required_origin)
        return function

    @property
    def _required_origin(self) -> str | None:
        """The secret without which the API answers nothing."""
        per_address = self._environment.api.per_address
        return None if per_address and per_address.around else self.secrets.origin

    def _edge(self) -> Edge | None:
        per_address, secret = self._environment.api.per_address, self.secrets.origin
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

    @property
    def _app_names(self) -> dict[str, list[str]]:
        """By channel; a subscription may name no others."""
        apns, fcm = ([app.name for app in apps] for apps in (self.secrets.apns, self.secrets.fcm))
        return {Channel.APNS: apns, Channel.VOIP: apns, Channel.FCM: fcm}

    def _cleanup(self) -> RoomFunction:
        size, tables, pair = self._environment.cleanup.size, self.tables, self.queues.cleanup
        settings = {"table_prefix": self._environment.prefix}
        function = self._function("Cleanup", "cleanup.handler.handler", size, settings)
        function.consume(pair.queue, self._environment.cleanup)
        allow(function, "dynamodb: BatchGetItem", tables.subscriptions.table_arn)
        allow(function, "dynamodb: Query BatchWriteItem", tables.rules.table_arn)
        allow_key(function, self.key, "dynamodb")
        return function

    @property
    def _login(self) -> dict[str, str]:
        domain, secret = self._environment.api.login_domain, self.secrets.login
        return {"login_domain": domain, "login_secret_id": secret} if domain and secret else {}

    @property
    def _direct_push(self) -> dict[str, str]:
        environment = self._environment
        if not environment.api.direct_push:
            return {}
        first = environment.apps[0]
        apns, fcm = self._secrets_of_first_app
        settings = {
            **environment.providers.as_settings(),
            **_set(pushes_per_minute=environment.api.pushes_per_minute, apns_sandbox_secret_id=apns.sandbox),
            "apns_secret_id": apns.key,
            "fcm_secret_id": fcm.key,
            "bundle_id": first.bundle_id,
            "alert_title": first.alert_title,
        }
        return {"direct_push": self.to_json_string(settings)}

    @property
    def _secrets_of_first_app(self) -> tuple[ProviderSecrets, ProviderSecrets]:
        """At APNs and at FCM."""
        first = self._environment.apps[0]
        return self.secrets.apns[first], self.secrets.fcm[first]

    def _allow_secrets(self, function: RoomFunction, *secrets: str | None) -> None:
        arns = [arn for arn in secrets if arn]
        if arns:
            allow(function, "secretsmanager: GetSecretValue", *arns)
            allow_key(function, self.key, "secretsmanager", "Decrypt")

    def _authorizer(self) -> RoomFunction:
        api = self._environment.api
        lifetime = api.token_lifetime_seconds
        settings = {
            **self._shared_issuer,
            **self._login,
            **self._issuers,
            **_set(token_lifetime_seconds=str(lifetime) if lifetime else None),
        }
        function = self._function(
            "Authorizer", "api.authorizer.handler", api.authorizer, settings, reserved=api.reserved
        )
        self._allow_secrets(function, self.secrets.jwt, self.secrets.login)
        return function

    @property
    def _shared_issuer(self) -> dict[str, str]:
        api, secret = self._environment.api, self.secrets.jwt
        if not (api.jwt_issuer and api.jwt_audience and secret):
            return {}
        return {"jwt_secret_id": secret, "jwt_issuer": api.jwt_issuer, "jwt_audience": api.jwt_audience}

    @property
    def _issuers(self) -> dict[str, str]:
        issuers = [
            {**issuer.model_dump(mode="json"), "algorithms": sorted(issuer.algorithms)}
            for issuer in self._environment.api.issuers
        ]
        return {"issuers": json.dumps(issuers)} if issuers else {}

    def _ingest(self, ingest: Ingest) -> IngestService:
        return IngestService(
            self,
            "Ingest",
            environment=self._environment,
            ingest=ingest,
            role=self.ingest_role,
            settings={
                **ingest.following.as_settings(),
                "stage": self._environment.stage,
                "node_urls": ",".join(str(url) for url in ingest.node_urls),
                "envelopes_queue_url": self.queues.statements.queue.queue_url,
                "oversize_bucket": self.lake.oversize.bucket_name,
                **self._common,
            },
        )

    def _ingest_role(self) -> iam.Role:
        """Who ingest runs as, also where it runs beside the stack, as it does beside the emulator."""
        tables, bucket = self.tables, self.lake.oversize
        role = iam.Role(self, "IngestRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        allow(role, "sqs: SendMessage", self.queues.statements.queue.queue_arn)
        allow(role, "firehose: PutRecordBatch", self.lake.events.delivery_stream_arn)
        allow(role, "dynamodb: GetItem PutItem", tables.leases.table_arn)
        allow(role, "dynamodb: DescribeTable Scan", tables.rules.table_arn)
        allow(role, "dynamodb: DescribeStream GetShardIterator GetRecords", tables.rules_stream_arn)
        allow(role, "s3: PutObject", bucket.arn_for_objects(f"{STATEMENTS}*"))
        allow(role, "s3: ListBucket", bucket.bucket_arn)
        allow(role, "s3: GetObject PutObject DeleteObject", bucket.arn_for_objects(f"{SEEN}*"))
        for folder in (STATEMENTS, SEEN):
            accept(role, objects_of(bucket, folder), "Receipts, and the order of saving, name the objects")
        allow_key(role, self.key, "dynamodb")
        allow_key(role, self.key, "s3")
        return role

    def _watch(self) -> None:
        environment, api_id = self._environment, self.http.api.api_id
        alarms = Alarms(self, "Alarms", environment=environment, api_id=api_id, key=self.key)
        Dashboard(self, "Dashboard", environment=environment, api_id=api_id, alarms=alarms)
        CfnOutput(self, "AlarmTopic", value=alarms.topic.topic_arn)

    def _function(
        self,
        name: str,
        handler: str,
        size: Size,
        settings: dict[str, str],
        *,
        reserved: int | None = None,
        feeds_itself: bool = False,
    ) -> RoomFunction:
        return RoomFunction(
            self,
            name,
            handler=handler,
            size=size,
            settings=settings,
            layers=self.layers,
            environment=self._environment,
            reserved=reserved,
            feeds_itself=feeds_itself,
        )

    @property
    def _common(self) -> dict[str, str]:
        return {
            "table_prefix": self._environment.prefix,
            "events_stream": f"{self._environment.prefix}events",
        }

    @property
    def _address(self) -> str | None:
        """What the domain's name has to lead to, as an alias or CNAME record."""
        if self.edge and self._environment.api.domain:
            return self.edge.distribution.distribution_domain_name
        return self.http.address

    def _tell(self) -> None:
        apns, fcm = self._secrets_of_first_app
        outputs = {
            "ApiId": self.http.api.api_id,
            "ApiUrl": self.edge.url if self.edge else self.http.url,
            "TablePrefix": self._environment.prefix,
            "StatementsQueueUrl": self.queues.statements.queue.queue_url,
            "ApnsQueueUrl": self.queues.apns.queue.queue_url,
            "VoipQueueUrl": self.queues.voip.queue.queue_url,
            "FcmQueueUrl": self.queues.fcm.queue.queue_url,
            "CleanupQueueUrl": self.queues.cleanup.queue.queue_url,
            "LakeBucket": self.lake.bucket.bucket_name,
            "OversizeBucket": self.lake.oversize.bucket_name,
            "EventsStream": self.lake.events.delivery_stream_name,
            "ApnsSecretId": apns.key,
            "FcmSecretId": fcm.key,
            "IngestRoleArn": self.ingest_role.role_arn,
            **_set(JwtSecretId=self.secrets.jwt, ApiAddress=self._address),
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)


def _further(app: App, secrets: ProviderSecrets) -> dict[str, str]:
    return {
        "name": app.name,
        "secret_id": secrets.key,
        **_set(bundle_id=app.bundle_id, sandbox_secret_id=secrets.sandbox),
        "alert_title": app.alert_title,
    }


def _arns(providers: Iterable[ProviderSecrets]) -> list[str]:
    return [arn for secrets in providers for arn in (secrets.key, secrets.sandbox) if arn]


def _set[Value](**settings: Value | None) -> dict[str, Value]:
    """Those that have a value: the others are left to the function's own defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def _synthesizer(assets_bucket: str | None) -> IStackSynthesizer:
    if assets_bucket is None:
        return DefaultStackSynthesizer()
    return CliCredentialsStackSynthesizer(file_assets_bucket_name=assets_bucket)
