"""An account with Clarion in it, as far as the operator's command line asks it: moto, and CloudFormation beside it."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, override
from urllib.parse import parse_qs
from uuid import uuid4
from xml.sax.saxutils import escape

import boto3
from moto.core.responses import ActionResult
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.sqs.exceptions import SQSException
from moto.sqs.responses import SQSResponse

from clarion import tables
from clarion.clock import now_ms
from clarion.events import Event
from clarion.networks.walletconnect import tables as walletconnect
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.servers import MODELS
from clarion.tables import Lease, RuleRow, Subscription, Token
from console import deployment
from console.deployment import Deployment
from console.depths import depth

ACCOUNT, REGION, PREFIX, LAKE = "123456789012", "us-east-1", "clarion-prod-", "clarion-prod-lake"
QUEUES = ("envelopes", "apns", "voip", "fcm", "webpush", "toy-commands", "cleanup")
"""`toy-commands` is there for whom the fixture `toy` has the network."""


class StackResource(NamedTuple):
    """`reason` says why it is in a state in which it should not be."""

    logical: str
    kind: str
    physical: str
    status: str = "CREATE_COMPLETE"
    reason: str = ""


class CloudFormation(ThreadingHTTPServer):
    """What is asked of stacks; moto's own needs packages that nothing else here does.

    `stacks` are their outputs, by name; what is in neither of the others is `CREATE_COMPLETE`, and has no resources.
    What is asked of it without a stack, as of the API, it answers with 200.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.stacks: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.protected: set[str] = set()
        self.resources: dict[str, list[StackResource]] = {}

    def clear(self) -> None:
        for each in (self.stacks, self.states, self.protected, self.resources):
            each.clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def describe(self, name: str | None) -> tuple[int, str]:
        if name is not None and name not in self.stacks:
            message = f"Stack with id {name} does not exist"
            return (
                400,
                f"<ErrorResponse><Error><Code>ValidationError</Code><Message>{message}</Message></Error></ErrorResponse>",
            )
        described = "".join(
            _stack(one, outputs, self.states.get(one, "CREATE_COMPLETE"), protected=one in self.protected)
            for one, outputs in self.stacks.items()
            if name in {None, one}
        )
        result = f"<DescribeStacksResult><Stacks>{described}</Stacks></DescribeStacksResult>"
        return 200, f"<DescribeStacksResponse>{result}</DescribeStacksResponse>"

    def list_resources(self, name: str) -> str:
        listed = "".join(
            f"<member><LogicalResourceId>{each.logical}</LogicalResourceId><ResourceType>{each.kind}</ResourceType>"
            f"<PhysicalResourceId>{each.physical}</PhysicalResourceId><ResourceStatus>{each.status}</ResourceStatus>"
            "</member>"
            for each in self.resources.get(name, [])
        )
        result = f"<StackResourceSummaries>{listed}</StackResourceSummaries>"
        return f"<ListStackResourcesResponse><ListStackResourcesResult>{result}</ListStackResourcesResult></ListStackResourcesResponse>"

    def list_events(self, name: str) -> str:
        """The newest first: what became of each resource, and that the stack was begun."""
        begun = StackResource(name, "AWS::CloudFormation::Stack", _identity(name), "CREATE_IN_PROGRESS")
        newest_first = [*reversed(self.resources.get(name, [])), begun]
        listed = "".join(_event(name, each) for each in newest_first)
        result = f"<DescribeStackEventsResult><StackEvents>{listed}</StackEvents></DescribeStackEventsResult>"
        return f"<DescribeStackEventsResponse>{result}</DescribeStackEventsResponse>"

    def answer(self, action: str, name: str | None) -> tuple[int, str]:
        match action:
            case "ListStackResources":
                return 200, self.list_resources(name or "")
            case "DescribeStackEvents":
                return 200, self.list_events(name or "")
        return self.describe(name)


class _Answer(BaseHTTPRequestHandler):
    server: CloudFormation

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._send(*self.server.answer(asked["Action"][0], asked.get("StackName", [None])[0]))

    def do_GET(self) -> None:
        self._send(200, "{}")

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.end_headers()
        self.wfile.write(text.encode())

    @override
    def log_message(self, *_: object) -> None:
        pass


def _identity(name: str) -> str:
    return f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/1"


def _event(name: str, each: StackResource) -> str:
    return (
        f"<member><StackId>{_identity(name)}</StackId><EventId>1</EventId><StackName>{name}</StackName>"
        f"<LogicalResourceId>{each.logical}</LogicalResourceId><PhysicalResourceId>{each.physical}</PhysicalResourceId>"
        f"<ResourceStatus>{each.status}</ResourceStatus>"
        f"<ResourceStatusReason>{escape(each.reason)}</ResourceStatusReason><Timestamp>2026-11-20T00:00:00Z</Timestamp>"
        "</member>"
    )


def _stack(name: str, outputs: dict[str, str], status: str, *, protected: bool) -> str:
    members = "".join(
        f"<member><OutputKey>{key}</OutputKey><OutputValue>{escape(value)}</OutputValue></member>"
        for key, value in outputs.items()
    )
    return (
        f"<member><StackName>{name}</StackName><StackId>{_identity(name)}</StackId><StackStatus>{status}</StackStatus>"
        f"<EnableTerminationProtection>{str(protected).lower()}</EnableTerminationProtection>"
        f"<CreationTime>2026-11-20T00:00:00Z</CreationTime><Outputs>{members}</Outputs></member>"
    )


def variables(**settings: str) -> dict[str, str]:
    """Of a channel's function: for one app, `settings` beside."""
    every = {"app_name": "first", "bundle_id": "io.pcf.polkadotapp", **settings}
    return {f"CLARION_{name.upper()}": value for name, value in every.items()}


def secret_arn(name: str) -> str:
    return f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{PREFIX}{name}-a1B2c3"


def fill_in(name: str, value: object) -> str:
    """The secret's ARN."""
    text = value if isinstance(value, str) else json.dumps(value)
    return boto3.client("secretsmanager").create_secret(Name=f"{PREFIX}{name}", SecretString=text)["ARN"]


@dataclass
class Quotas:
    """Service Quotas, of which moto knows those of VPCs alone. `own` are the account's, where they are not AWS's."""

    own: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, float] = field(
        default_factory=lambda: {
            "L-B99A9384": 1_000,
            "L-3032A538": 6,
            "L-36FBB829": 6,
            "L-D05C8A75": 16,
            "L-F678F1CE": 5,
            "L-A4707A72": 5,
            "L-1B52E74A": 20,
            "L-0263D0A3": 5,
            "L-F98FE922": 2_500,
            "L-14BB0BE7": 5_000,
        }
    )

    def get(self, quotas: ServiceQuotasResponse) -> str:
        return self._answer(quotas, self.own)

    def get_default(self, quotas: ServiceQuotasResponse) -> str:
        return self._answer(quotas, self.defaults)

    def _answer(self, quotas: ServiceQuotasResponse, known: dict[str, float]) -> str:
        code = json.loads(quotas.body)["QuotaCode"]
        if code not in known:
            raise NoSuchResource
        return json.dumps({"Quota": {"QuotaCode": code, "Value": known[code]}})


@dataclass
class MoveTasks:
    """SQS's move tasks, which moto lacks; or, if not `known`, what an emulator without them answers."""

    known: bool = True
    ending: str = "COMPLETED"
    asked: list[dict[str, Any]] = field(default_factory=list)
    cancelled: bool = False
    moved: int = 0
    unseen: int = 0
    """So many looks find no task yet, and as many more find it completed with nothing counted."""
    _looks: int = 0

    def start(self, sqs: SQSResponse) -> ActionResult:
        if not self.known:
            raise SQSException("UnsupportedOperation", "Unsupported operation.")
        self.asked.append(
            {name: sqs._get_param(name) for name in ("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond")}
        )
        source, target = (self.asked[-1][name].split(":")[-1] for name in ("SourceArn", "DestinationArn"))
        dead = sqs.sqs_backend.get_queue(source)
        for message in dead.messages:
            sqs.sqs_backend.send_message(target, message.body)
        self.moved = len(dead.messages)
        sqs.sqs_backend.purge_queue(source)
        return ActionResult({"TaskHandle": "task"})

    def list_moves(self, sqs: SQSResponse) -> ActionResult:
        self._looks += 1
        if self._looks <= self.unseen:
            return ActionResult({"Results": []})
        counted = 0 if self._looks <= 2 * self.unseen else self.moved
        task = {
            "Status": self.ending,
            "ApproximateNumberOfMessagesMoved": counted,
            "ApproximateNumberOfMessagesToMove": self.moved,
        }
        return ActionResult(
            {"Results": [task | ({"FailureReason": "no permission"} if self.ending == "FAILED" else {})]}
        )

    def cancel(self, sqs: SQSResponse) -> ActionResult:
        self.cancelled = True
        return ActionResult({"ApproximateNumberOfMessagesMoved": self.moved})


class Account:
    """Production in moto. Its functions don't run, so what is sent to a queue stays there."""

    def __init__(self, cloudformation: CloudFormation, move_tasks: MoveTasks) -> None:
        self.cloudformation = cloudformation
        self.move_tasks = move_tasks
        self.sqs = boto3.client("sqs")
        self.s3 = boto3.client("s3")
        self.lambda_ = boto3.client("lambda")
        self.cloudwatch = boto3.client("cloudwatch")
        self.urls = {name: self._queue(name) for queue in QUEUES for name in (queue, f"{queue}-dead")}
        self.urls |= {name: self._queue(name) for name in ("apns-held", "fcm-held", "webpush-held")}
        self.s3.create_bucket(Bucket=LAKE)
        self._sources()
        tables.bind(PREFIX)
        for model in (Subscription, Token, RuleRow, Lease):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        urls = {f"{name.title().replace('-', '')}QueueUrl": self.urls[name] for name in QUEUES}
        cloudformation.stacks = {
            "CDKToolkit": {},
            "clarion-prod-stack": {
                "TablePrefix": PREFIX,
                "LakeBucket": LAKE,
                "ApiUrl": cloudformation.url,
                "IngestRoleArn": f"arn:aws:iam::{ACCOUNT}:role/ingest",
                **urls,
            },
        }

    @property
    def here(self) -> Deployment:
        return deployment.find("prod")

    def serve_zulip(self, keys: str) -> None:
        """`keys` is the text of the bouncer's secret."""
        tables.bind(PREFIX, own=MODELS)
        for model in MODELS:
            model.create_table(billing_mode="PAY_PER_REQUEST")
        fill_in(BOUNCER_SECRET, keys)

    def serve_walletconnect(self) -> None:
        """Its secret holds what it was made with."""
        tables.bind(PREFIX, own=walletconnect.MODELS)
        for model in walletconnect.MODELS:
            model.create_table(billing_mode="PAY_PER_REQUEST")
        fill_in(SERVER_SECRET, "random letters")

    def renew_lease(self, task: str, *, seconds_ago: float, ended: bool = False) -> None:
        version = now_ms() - int(seconds_ago * 1000)
        Lease(task, version=version, delivered_through=0, ended=ended, ttl=2**31).save()

    def _queue(self, name: str) -> str:
        return self.sqs.create_queue(QueueName=f"{PREFIX}{name}")["QueueUrl"]

    def _sources(self) -> None:
        """They listen to a queue where nothing is ever sent: moto would take the messages for its own."""
        for queue in ("elsewhere", "elsewhere-held"):
            self.sqs.create_queue(QueueName=queue)
        role = boto3.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("any.py", "")
        for name in ("match", "apns", "voip", "fcm", "webpush", "toy-worker", "cleanup"):
            function = f"{PREFIX}{name}"
            self.lambda_.create_function(
                FunctionName=function,
                Runtime="python3.13",
                Role=role,
                Handler="any.any",
                Code={"ZipFile": code.getvalue()},
                Environment={"Variables": variables(provider_secret_id=secret_arn(name))},
                Publish=True,
            )
            live = self.lambda_.create_alias(FunctionName=function, Name="live", FunctionVersion="1")["AliasArn"]
            for queue in ("elsewhere", "elsewhere-held") if name in {"apns", "fcm", "webpush"} else ("elsewhere",):
                arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
                self.lambda_.create_event_source_mapping(EventSourceArn=arn, FunctionName=live)

    def go_live(self, name: str) -> None:
        """The function as it is now."""
        function = f"{PREFIX}{name}"
        version = self.lambda_.publish_version(FunctionName=function)["Version"]
        self.lambda_.update_alias(FunctionName=function, Name="live", FunctionVersion=version)

    def state_of(self, channel: str) -> str:
        """Of all its event sources."""
        live = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{PREFIX}{channel}:live"
        mappings = self.lambda_.list_event_source_mappings(FunctionName=live)["EventSourceMappings"]
        (state,) = {mapping["State"] for mapping in mappings}
        return state

    def count(self, queue: str) -> int:
        return depth(self.sqs, self.urls[queue]).waiting

    def raise_alarm(self, name: str, *, minutes: int, missing: str = "notBreaching") -> None:
        """One that looks back so far."""
        self.cloudwatch.put_metric_alarm(
            AlarmName=f"{PREFIX}{name}",
            AlarmDescription=f"What to do: docs/operations.md#{name}",
            MetricName="any",
            Namespace="any",
            Period=60,
            EvaluationPeriods=minutes,
            Threshold=1,
            ComparisonOperator="LessThanThreshold",
            Statistic="Sum",
            TreatMissingData=missing,
        )
        self.cloudwatch.set_alarm_state(AlarmName=f"{PREFIX}{name}", StateValue="ALARM", StateReason="a test")

    def send(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.urls[queue], MessageBody=body)

    def write_to_lake(self, *events: Event | bytes, arrived: datetime | None = None, zipped: bool = True) -> None:
        """One file, as Firehose writes it."""
        lines = (one if isinstance(one, bytes) else one.model_dump_json(exclude_none=True).encode() for one in events)
        content = b"".join(line + b"\n" for line in lines)
        hour = arrived or datetime.now(UTC)
        key = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/{uuid4()}.jsonl"
        if zipped:
            self.s3.put_object(Bucket=LAKE, Key=f"{key}.gz", Body=gzip.compress(content))
        else:
            self.s3.put_object(Bucket=LAKE, Key=key, Body=content)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


type Clarion = Callable[..., Ended]
