"""`make run`: everything on this machine, up until Ctrl-C, with how to use it."""

import asyncio
import sys
from textwrap import dedent

from rich.console import Console

from local.device import Device
from local.lifetime import end_of_life
from local.provider import Journal, ReceivedPush
from local.system import API_SECRET, System, running


def _guide(system: System, bob: Device, alice: Device) -> str:
    host, url = system.deployment.api_host, system.deployment.api_url
    return dedent(f"""\
        Bob's bearer token (24 hours), and the keys of Bob and Alice:

          export CLARION='{url}' HOST='Host: {host}'
          export AUTH='Authorization: Bearer {bob.api_token(API_SECRET)}'
          # Bob   {bob.public_key.hex()}
          # Alice {alice.public_key.hex()}

        Register a token, whitelist a sender on a topic, look at what is there:

          curl -sH "$HOST" -H "$AUTH" "$CLARION/v1/subscriptions" --json '{{"platform": "apns", "token": "{"ab" * 32}"}}'
          curl -sH "$HOST" -H "$AUTH" "$CLARION/v1/subscriptions/rules" -X PUT --json '{{"subscription_id": "…",
            "rules": [{{"sender_pubkey": "{alice.public_key.hex()}", "topic": "{"00" * 32}"}}]}}'
          curl -sH "$HOST" -H "$AUTH" "$CLARION/v1/subscriptions"

        Publish as Alice, from another terminal in this folder; the push shows up below:

          .venv/bin/python -m local.publish {system.store.url} Alice {"00" * 32} "hello"

        The emulator answers the AWS command line at {system.deployment.emulator.endpoint}
        (keys: test, test; region us-east-1). Ctrl-C ends it all.
        """)


async def _show(console: Console, provider: str, journal: Journal) -> None:
    shown = 0
    while True:
        for push in (await journal.until(shown + 1))[shown - journal.count :]:
            console.print(f"[bold]{provider}[/bold] {_verdict(push)}")
            console.print_json(data=push.payload)
        shown = journal.count


def _verdict(push: ReceivedPush) -> str:
    return "accepted a push" if push.accepted else f"refused a push: {push.reason}"


async def main() -> None:
    console = Console(highlight=False)
    end = end_of_life()
    async with running("run", console.print) as system, asyncio.TaskGroup() as shows:
        console.print("\n" + _guide(system, Device("Bob"), Device("Alice")), markup=False, soft_wrap=True)
        tasks = [
            shows.create_task(_show(console, "APNs", system.apns.received)),
            shows.create_task(_show(console, "FCM", system.fcm.received)),
            shows.create_task(_show(console, "Web Push", system.webpush.received)),
        ]
        await end.wait()
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
