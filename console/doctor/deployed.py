"""What makes a deployment work that CloudFormation can't make: confirmed mail, a domain that leads there, ingest at work."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import boto3
import httpx

from clarion.decisions import PushDecision
from console import send_test, status
from console.deployment import Deployment
from console.doctor.report import Check
from console.send_test import TestDevice

PENDING = "PendingConfirmation"
"""In place of a subscription's ARN: https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html"""
MINUTES = 60
ANSWER_S = 10.0


def check_alarm_receivers(here: Deployment) -> Iterator[Check]:
    """Of whoever receives the alarms. Nothing where there are none."""
    topic = here.outputs.get("AlarmTopic")
    if topic is None:
        return
    pages = boto3.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    receivers = [each for page in pages for each in page["Subscriptions"]]
    for each in receivers:
        pending = each["SubscriptionArn"] == PENDING
        yield Check(
            name=f"alarms to {_receiver(each['Protocol'], each['Endpoint'])}",
            found="not confirmed" if pending else "confirmed",
            todo="follow the link in AWS's mail to that address" if pending else None,
        )
    if not receivers:
        yield Check(name="alarms", found="nobody receives them", todo='make deploy with CONTEXT="alarm_email=…"')


def _receiver(protocol: str, endpoint: str) -> str:
    """A mail address, or what a URL may be shown of: the rest of it may be a key."""
    return endpoint if protocol == "email" else f"{protocol} {urlsplit(endpoint).hostname or ''}".strip()


def check_api(here: Deployment) -> Iterator[Check]:
    """By the address that clients use, from here."""
    url = here.outputs["ApiUrl"]
    try:
        answer = httpx.get(f"{url}/openapi.json", timeout=ANSWER_S)
    except httpx.HTTPError as error:
        yield Check(name="api", found=f"{url} can't be reached: {error}", todo=_address_advice(here))
    else:
        well = answer.is_success
        yield Check(
            name="api", found=f"{url} answers with {answer.status_code}", todo=None if well else _address_advice(here)
        )


def _address_advice(here: Deployment) -> str:
    if address := here.outputs.get("ApiAddress"):
        return f"let the domain's name lead to {address}, by a CNAME or alias record"
    return "look at docs/operations.md#api-failing"


def check_status(here: Deployment) -> Iterator[Check]:
    """Alarms, dead letters, muted queues and ingest, as `clarion status` has them."""
    found = status.look(here, MINUTES)
    for alarm in found.alarms:
        if alarm.premature:
            yield Check(name=f"alarm {alarm.name}", found="new, and on until it has something to look at")
    for trouble in found.troubles:
        yield Check(name="status", found=trouble, todo="clarion status, and the alarm's entry in docs/operations.md")
    if not found.troubles:
        yield Check(name="status", found=f"all is well, {len(found.tasks)} ingest tasks at work")


def check_push(here: Deployment, device: TestDevice) -> Iterator[Check]:
    """One to a real device, as `clarion send-test` sends it."""
    found = send_test.send_test(here, device, send_test.WAIT_SECONDS, send_test.POLL_SECONDS, yes=True)
    name, why = f"test push by {device.channel}", f"clarion why --envelope 0x{found.envelope_id}"
    if found.decision is PushDecision.DELIVERED:
        yield Check(name=name, found="delivered")
    else:
        yield Check(name=name, found=found.reason or found.decision or "no outcome in time", todo=why)
