"""What an emulated run and a deployment say beside their items, as the page gets it."""

from typing import Any

from clarion.channels import Channel
from clarion.clock import now_ms
from local.live.phones import ShownPush
from local.live.senders import senders
from local.live.troubles import TROUBLES


def controls(*, ready: bool = True) -> dict[str, Any]:
    everybody = senders()
    for sender in everybody:
        if ready:
            sender.texts.begun.set()
    phones = [
        ("Bob's iPhone", "statements", Channel.APNS),
        ("Bob's iPhone", "statements", Channel.VOIP),
        ("Carol's Android phone", "statements", Channel.FCM),
        ("Carol's browser", "statements", Channel.WEBPUSH),
        ("Alix's robot", "xmtp", Channel.WEBHOOK),
        ("Zulip on an iPhone", "zulip", Channel.APNS),
        ("A wallet on an iPhone", "walletconnect", Channel.APNS),
        ("Erin's iPhone", "simplex", Channel.APNS),
    ]
    return {
        "senders": [sender.as_json() for sender in everybody],
        "troubles": [trouble.as_json(on=False) for trouble in TROUBLES],
        "phones": [dict(zip(("name", "network", "channel"), phone, strict=True)) for phone in phones],
    }


def push(number: int, text: str, phone: str = "Bob's iPhone", *, reason: str | None = None) -> dict[str, Any]:
    shown = ShownPush(
        number=f"apns-{number}",
        phone=phone,
        network="statements",
        channel=Channel.APNS,
        text=text,
        at=now_ms(),
        reason=reason,
    )
    return shown.model_dump(mode="json")


def status(**changes: Any) -> dict[str, Any]:
    queue = {
        "waiting": 0,
        "in_flight": 1,
        "delayed": 0,
        "held": None,
        "oldest_seconds": None,
        "dead": 0,
        "muted": False,
    }
    names = ("envelopes", "apns", "voip", "fcm", "webpush", "webhook")
    counts = {"envelopes_received": 12840, "envelope_matched": 3911, "push_delivered": 4007}
    gauges, nodes = {"ingest_lag": 120, "rules_behind": 900}, {"statements": 2, "xmtp": 1}
    return {
        "stage": "made-up",
        "at": "2026-11-20T12:00:00Z",
        "minutes": 60,
        "measures": {"counts": counts, "latency": {"p50": 210, "p99": 1400}, "gauges": gauges, "nodes": nodes},
        "tasks": [{"name": "task-1", "renewed_seconds": 3.2}],
        "queues": [{"name": name, **queue} for name in names],
        "alarms": [],
        "troubles": [],
        **changes,
    }


ALARM: dict[str, Any] = {
    "name": "dead-letters",
    "since": "2026-11-20T12:00:00Z",
    "runbook": "Messages were given up. Look at the reason with each of them: docs/operations.md#dead-letters",
    "premature": False,
    "todo": "Messages were given up. Look at the reason with each of them: docs/operations.md#dead-letters",
}


def history() -> dict[str, Any]:
    """An hour with an outage of four minutes, in which nothing is delivered, and what waited comes late."""
    begin = now_ms() // 60_000 * 60 - 59 * 60
    outage = range(30, 34)
    return {
        "minutes": [begin + 60 * minute for minute in range(60)],
        "series": {
            "received": [200 + minute % 7 * 10 for minute in range(60)],
            "delivered": [None if minute in outage else 190 + minute % 5 * 10 for minute in range(60)],
            "p50": [None if minute in outage else 210 for minute in range(60)],
            "p99": [None if minute in outage else 1400 + 40_000 * (minute == 34) for minute in range(60)],
        },
    }
