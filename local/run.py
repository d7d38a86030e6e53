"""`make run`: everything on this machine, up until Ctrl-C, with how to use it."""

import asyncio
import json
import os
import sys
import webbrowser
from hashlib import sha256
from textwrap import dedent
from urllib.parse import urlencode
from uuid import uuid4

from rich.console import Console

from infra.environments import EMULATOR
from local.device import Device
from local.emulator import EmulatorError
from local.lifetime import AlreadyRunningError, end_of_life
from local.live.page import live_page
from local.outside import API_SECRET, BUNDLE_ID
from local.provider import Journal, ReceivedPush
from local.system import System, running
from local.xmtp_device import ChatGroup, Inbox, InstalledApp
from local.zulip_server import new_org_key

APNS_TOKEN = "ab" * 32


def guide(system: System) -> str:
    bob, alice = Device("Bob"), Device("Alice")
    parts = (
        _statements_guide(system, bob, alice),
        _browser_guide(system),
        _clients_guide(system, alice),
        _xmtp_guide(system),
        _zulip_guide(system),
        _operator_guide(system),
    )
    return "\n".join(parts)


def _statements_guide(system: System, bob: Device, alice: Device) -> str:
    url = system.deployment.api_address
    return dedent(f"""\
        The API as a page, to be tried in a browser; its button Authorize takes the token below:

          {url}/docs

        Bob's bearer token (24 hours), and the keys of Bob and Alice:

          export CLARION='{url}'
          export TOKEN='{bob.api_token(API_SECRET)}'
          export AUTH="Authorization: Bearer $TOKEN"
          # Bob   {bob.public_key.hex()}
          # Alice {alice.public_key.hex()}

        Register a token, whitelist a sender on a topic, look at what is there:

          curl -sH "$AUTH" "$CLARION/v1/subscriptions" --json '{{"platform": "apns", "token": "{APNS_TOKEN}"}}'
          curl -sH "$AUTH" "$CLARION/v1/subscriptions/rules" -X PUT --json '{{"subscription_id": "…",
            "rules": [{{"sender_pubkey": "{alice.public_key.hex()}", "topic": "{"00" * 32}"}}]}}'
          curl -sH "$AUTH" "$CLARION/v1/subscriptions"

        The store's node, where an app fetches what didn't fit a push, and reads what it missed:

          {system.store.url}

        Publish there as Alice, from another terminal in this folder; the push shows up below:

          .venv/bin/python -m local.publish {system.store.url} Alice {"00" * 32} "hello"
        """)


def _browser_guide(system: System) -> str:
    """The page with a browser's part; `standIn` has it use the push service's stand-in, `seal` has its pushes sealed."""
    key, api = system.application_server_key, system.deployment.api_address
    parameters = urlencode({"applicationServerKey": key, "api": api, "standIn": "", "seal": ""})
    return dedent(f"""\
        A browser gets pushes by this page: paste the token, press Subscribe, whitelist as above for the id it shows:

          {system.page_origin}/?{parameters}

        For a page of your own: its origin has to be {system.page_origin}, the only one that may call the API, and the
        application server key, by which a browser subscribes, is

          {key}
        """)


def _clients_guide(system: System, alice: Device) -> str:
    """What other clients than curl have to know."""
    deployment = system.deployment
    return dedent(f"""\
        A second client is Alice; a token that Bob has is pending for her:

          export ALICE="Authorization: Bearer {alice.api_token(API_SECRET)}"

        To sign in with a key of your own, the login domain is {EMULATOR.api.login_domain}. Python looks up no names under
        .localhost: call {deployment.api_url} with the header "Host: {deployment.api_host}".

        What the stand-ins for FCM and APNs got, with what they answered; `since` is the `next` of the last look:

          curl -s --cacert {system.stand_ins["ca_file"]} "{system.fcm.url}/_stand-in/received?since=0"
          curl -s --cacert {system.stand_ins["ca_file"]} "{system.apns.url}/_stand-in/received?since=0"
        """)


def _xmtp_guide(system: System) -> str:
    """An installation of Bob's that is reached by APNs, with his keys, and one by the webhook, without."""
    group, phone = ChatGroup("lunch"), InstalledApp(Inbox("Bob"), "phone")
    address = json.loads(system.webhook.install())
    robot, robots_token = address["installation_id"], address["token"]
    publish = f".venv/bin/python -m local.xmtp_publish {system.xmtp.urls[0]} {system.stand_ins['ca_file']}"
    subscription = json.dumps(phone.subscription_to(group).as_json())
    return dedent(f"""\
        XMTP: register an installation of Bob's, and subscribe to the group "lunch" with his keys. The examples of
        docs/xmtp.md work as well:

          export NOTIFICATIONS="$CLARION/notifications.v1.Notifications"
          curl -sH "$AUTH" "$NOTIFICATIONS/RegisterInstallation" --json '{{"installationId": "{phone.id}",
            "deliveryMechanism": {{"apnsDeviceToken": "{APNS_TOKEN}"}}}}'
          curl -sH "$AUTH" "$NOTIFICATIONS/SubscribeWithMetadata" --json '{{"installationId": "{phone.id}",
            "subscriptions": [{subscription}]}}'

        The same by the webhook, without keys, for an installation that the receiver's stand-in knows:

          curl -sH "$AUTH" "$NOTIFICATIONS/RegisterInstallation" --json '{{"installationId": "{robot}",
            "deliveryMechanism": {{"customToken": "{robots_token}"}}}}'
          curl -sH "$AUTH" "$NOTIFICATIONS/Subscribe" --json '{{"installationId": "{robot}",
            "topics": ["{group.topic}"]}}'

        Send to the group. What Alice says is pushed to both, what Bob says himself to the webhook alone; APNs' pushes
        and the webhook's requests show up below:

          {publish} Alice lunch "hello"
          {publish} Bob lunch "hello"
        """)


def _zulip_guide(system: System) -> str:
    """A server that the operator lets in, with what its users' app has built in."""
    org_key = new_org_key()
    return dedent(f"""\
        Zulip: an app seals its tokens for the bouncer's public key, as one whose bundle id is {BUNDLE_ID}:

          {system.bouncer_public_key}

        Let a server in, with the operator's command line below, and call as it does; docs/zulip.md has more of its calls:

          export ZULIP_ORG_ID={uuid4()} ZULIP_ORG_KEY={org_key}
          clarion zulip server add $ZULIP_ORG_ID --key-hash {sha256(org_key.encode()).hexdigest()}
          curl -s --user "$ZULIP_ORG_ID:$ZULIP_ORG_KEY" "$CLARION/api/v1/remotes/server/analytics/status"
        """)


def _operator_guide(system: System) -> str:
    exports = " ".join(f"{name}={value}" for name, value in system.deployment.emulator.variables.items())
    return dedent(f"""\
        The operator's command line, and AWS's own, from another terminal in this folder:

          source .venv/bin/activate
          export {exports}
          clarion status
          clarion send-test - --channel apns --yes <<< {APNS_TOKEN}
          aws sqs list-queues

        Ctrl-C ends it all.
        """)


async def _show(console: Console, provider: str, journal: Journal) -> None:
    shown = 0
    while True:
        for push in (await journal.until(shown + 1))[shown - journal.count :]:
            console.print(f"[bold]{provider}[/bold] {headline(push)}")
            console.print_json(data=push.payload)
        shown = journal.count


def headline(push: ReceivedPush) -> str:
    """What became of it, and which device it was for: docs/receiving.md says how to know."""
    verdict = "accepted" if push.accepted else f"refused as {push.reason}"
    kind = push.headers.get("apns-push-type", "push")
    device = sha256(push.token.encode()).hexdigest()[:8]
    return f"{verdict}: {kind} to {device}"


def _open_in_browser(address: str) -> None:
    """Where somebody sits before a screen: a browser in the terminal itself would take it away."""
    has_screen = sys.platform == "darwin" or bool(os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"})
    if has_screen and sys.stdout.isatty():
        webbrowser.open(address)


async def main() -> None:
    console = Console(highlight=False)
    async with running("run", console.print) as system, live_page(system) as page, asyncio.TaskGroup() as shows:
        end = end_of_life()
        console.print("\n" + guide(system), markup=False, soft_wrap=True)
        console.print(
            f"What happens, as a page in a browser, with a button to send something:\n\n  {page}\n", soft_wrap=True
        )
        _open_in_browser(page)
        tasks = [
            shows.create_task(_show(console, "APNs", system.apns.received)),
            shows.create_task(_show(console, "FCM", system.fcm.received)),
            shows.create_task(_show(console, "Web Push", system.webpush.received)),
            shows.create_task(_show(console, "Webhook", system.webhook.received)),
        ]
        await end.wait()
        console.print("stopping")
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (AlreadyRunningError, EmulatorError, KeyboardInterrupt) as error:
        sys.exit(str(error) or "stopped before all was up")
