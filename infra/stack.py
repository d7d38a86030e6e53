"""The live stack: it wires the constructs together. What each component may do is stated with its function."""

from aws_cdk import CfnOutput
from constructs import Construct

from clarion.networks import SIMPLEX
from clarion.networks.needs import Function
from infra.api import HttpApi, public_paths
from infra.api_functions import ApiFunction, AuthorizerFunction
from infra.base import EnvironmentStack
from infra.canary import Canaries
from infra.config import EnvironmentConfig
from infra.data import DELIVERIES_QUEUE, EDGE_LOGS, Data, DataStack
from infra.edge import Edge
from infra.functions import ComponentFunction, Foundation, given
from infra.ingest import IngestRole, IngestService
from infra.layers import Layers
from infra.monitoring import Alarms, Dashboard
from infra.networks import add_functions
from infra.ntf_role import NtfRole
from infra.queues import Queues
from infra.schedule import ScheduleFunction
from infra.stream import DeliveryStream
from infra.workers import CleanupFunction, DeliveriesFunction, DispatchFunction, LateEventsFunction, MatchFunction


class ClarionStack(EnvironmentStack):
    """It keeps nothing: it can be taken down, or fail, and be deployed again over the data stack."""

    def __init__(self, scope: Construct, *, environment: EnvironmentConfig, data: DataStack) -> None:
        super().__init__(
            scope,
            "stack",
            environment=environment,
            description="Clarion: what networks show in, push notifications out",
        )
        self._environment = environment
        self.data_stack = data
        self.foundation = self._foundation()
        self._canaried = {**self._match(), **self._dispatch()}
        self._consumers()
        self.http = self._api()
        self.edge = self._edge()
        self.ingest_role = self._ingest_role()
        self.ingest = self._ingest()
        self.ntf_role = self._ntf_role()
        self.alarms = self._monitor() if environment.monitored else None
        self._outputs()

    def _foundation(self) -> Foundation:
        environment = self._environment
        data = Data(self, "Data", environment=environment, stack=self.data_stack)
        return Foundation(
            environment=environment,
            data=data,
            queues=Queues(self, "Queues", environment=environment),
            events=DeliveryStream(self, "Lake", environment=environment, data=data).stream,
            layers=Layers(self, "Layers", platform=environment.platform),
        )

    def _consumers(self) -> None:
        CleanupFunction(self, foundation=self.foundation)
        DeliveriesFunction(self, foundation=self.foundation)
        LateEventsFunction(self, foundation=self.foundation)
        ScheduleFunction(self, foundation=self.foundation)

    def _match(self) -> dict[ComponentFunction, tuple[str, ...]]:
        """By function, the alarms that end its canary."""
        match, pages, queues = self._environment.match, self._environment.pages, self.foundation.queues
        everybody = match.concurrency + pages.concurrency
        return {
            MatchFunction(
                self, name, foundation=self.foundation, source=source, consumer=consumer, concurrency=concurrency
            ): (f"function-failing-{name.lower()}", "envelopes-failing")
            for name, source, consumer, concurrency in (
                ("Match", queues.envelopes, match, match.concurrency),
                ("Pages", queues.pages, pages, everybody),
            )
        }

    def _dispatch(self) -> dict[ComponentFunction, tuple[str, ...]]:
        """The same."""
        return {
            DispatchFunction(self, channel, foundation=self.foundation): (
                f"function-failing-{channel}",
                "pushes-refused",
            )
            for channel in self._environment.channels
        }

    def _api(self) -> HttpApi:
        functions = {name: add_functions(self, name, foundation=self.foundation) for name in self._environment.networks}
        return HttpApi(
            self,
            "Http",
            environment=self._environment,
            authorizer=AuthorizerFunction(self, foundation=self.foundation).live,
            function=ApiFunction(self, foundation=self.foundation).live,
            routers={name: own[Function.ROUTER].live for name, own in functions.items() if Function.ROUTER in own},
        )

    def _edge(self) -> Edge | None:
        per_address, data = self._environment.api.per_address, self.foundation.data
        if not (per_address and data.secrets.origin):
            return None
        return Edge(
            self,
            "Edge",
            environment=self._environment,
            per_address=per_address,
            api_id=self.http.api.api_id,
            origin_secret=data.secrets.origin,
            log_bucket=data.bucket(EDGE_LOGS),
            public=public_paths(self._environment),
        )

    def _ingest_role(self) -> IngestRole | None:
        """Where a network is followed: by the tasks below, or by ingest beside the stack. `clarion status` looks for it."""
        if not self._environment.followed_networks:
            return None
        role = IngestRole(self, "IngestRole", foundation=self.foundation)
        CfnOutput(self, "IngestRoleArn", value=role.role_arn)
        return role

    def _ingest(self) -> IngestService | None:
        ingest = self._environment.ingest
        if ingest is None or self.ingest_role is None:
            return None
        return IngestService(self, "Ingest", foundation=self.foundation, ingest=ingest, role=self.ingest_role)

    def _ntf_role(self) -> NtfRole | None:
        if SIMPLEX not in self._environment.networks:
            return None
        role = NtfRole(self, "NtfRole", foundation=self.foundation)
        CfnOutput(self, "NtfRoleArn", value=role.role_arn)
        return role

    def _monitor(self) -> Alarms:
        environment, api_id = self._environment, self.http.api.api_id
        alarms = Alarms(self, "Alarms", environment=environment, api_id=api_id, key=self.foundation.data.key)
        Dashboard(self, "Dashboard", environment=environment, api_id=api_id, alarms=alarms)
        CfnOutput(self, "AlarmTopic", value=alarms.topic.topic_arn)
        if environment.canary:
            watched = {function: [alarms.by_name[name] for name in names] for function, names in self._canaried.items()}
            Canaries(self, "Canaries", watched=watched)
        return alarms

    @property
    def _address(self) -> str | None:
        """What the domain's name has to lead to, as an alias or CNAME record."""
        if self.edge and self._environment.api.domain:
            return self.edge.distribution.distribution_domain_name
        return self.http.address

    def _outputs(self) -> None:
        data, queue_urls = self.foundation.data, self.foundation.queues.urls
        queue_urls[DELIVERIES_QUEUE] = data.deliveries.queue_url
        first = self._environment.apps[0]
        outputs = {
            "ApiId": self.http.api.api_id,
            "ApiUrl": self.edge.url if self.edge else self.http.url,
            "TablePrefix": self._environment.prefix,
            **{f"{name.title().replace('-', '')}QueueUrl": url for name, url in queue_urls.items()},
            "LakeBucket": data.lake.bucket_name,
            "OversizeBucket": data.oversize.bucket_name,
            "EventsStream": self.foundation.events.delivery_stream_name,
            **{f"{provider.title()}SecretId": apps[first].key for provider, apps in data.secrets.providers.items()},
            **given(JwtSecretId=data.secrets.jwt, ApiAddress=self._address),
            **{
                f"{name.title().replace('-', '')}SecretId": secret_id
                for secrets in data.secrets.networks.values()
                for name, secret_id in secrets.items()
            },
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
