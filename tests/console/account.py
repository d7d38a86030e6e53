"""An account with Clarion in it, as far as the operator's command line asks it: moto, and CloudFormation beside it."""

import gzip
import io
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
from moto.sqs.exceptions import SQSException
from moto.sqs.responses import SQSResponse

from clarion import tables
from clarion.clock import now_ms
from clarion.events import Event
from clarion.tables import Lease, RuleRow, Subscription, Token
from console import deployment
from console.deployment import Deployment
from console.depths import depth

ACCOUNT, REGION, PREFIX, LAKE = "123456789012", "us-east-1", "clarion-prod-", "clarion-prod-lake"
QUEUES = ("envelopes", "apns", "voip", "fcm", "webpush", "toy-commands", "cleanup")
"""`toy-commands` is there for whom the fixture `toy` has the network."""


class CloudFormation(ThreadingHTTPServer):
    """Answers DescribeStacks; moto's own needs packages that nothing else here does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.stacks: dict[str, dict[str, str]] = {}

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
        described = "".join(_stack(one, outputs) for one, outputs in self.stacks.items() if name in {None, one})
        result = f"<DescribeStacksResult><Stacks>{described}</Stacks></DescribeStacksResult>"
        return 200, f"<DescribeStacksResponse>{result}</DescribeStacksResponse>"


class _Answer(BaseHTTPRequestHandler):
    server: CloudFormation

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        status, text = self.server.describe(asked.get("StackName", [None])[0])
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.end_headers()
        self.wfile.write(text.encode())

    @override
    def log_message(self, *_: object) -> None:
        pass


def _stack(name: str, outputs: dict[str, str]) -> str:
    members = "".join(
        f"<member><OutputKey>{key}</OutputKey><OutputValue>{escape(value)}</OutputValue></member>"
        for key, value in outputs.items()
    )
    identity = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/1"
    return (
        f"<member><StackName>{name}</StackName><StackId>{identity}</StackId><StackStatus>CREATE_COMPLETE</StackStatus>"
        f"<CreationTime>2026-11-20T00:00:00Z</CreationTime><Outputs>{members}</Outputs></member>"
    )


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
            "clarion-prod-stack": {"TablePrefix": PREFIX, "LakeBucket": LAKE, **urls},
        }

    @property
    def here(self) -> Deployment:
        return deployment.find("prod")

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
                Publish=True,
            )
            live = self.lambda_.create_alias(FunctionName=function, Name="live", FunctionVersion="1")["AliasArn"]
            for queue in ("elsewhere", "elsewhere-held") if name in {"apns", "fcm", "webpush"} else ("elsewhere",):
                arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
                self.lambda_.create_event_source_mapping(EventSourceArn=arn, FunctionName=live)

    def state_of(self, channel: str) -> str:
        """Of all its event sources."""
        live = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{PREFIX}{channel}:live"
        mappings = self.lambda_.list_event_source_mappings(FunctionName=live)["EventSourceMappings"]
        (state,) = {mapping["State"] for mapping in mappings}
        return state

    def count(self, queue: str) -> int:
        return depth(self.sqs, self.urls[queue]).waiting

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
