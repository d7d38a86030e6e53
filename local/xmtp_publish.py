"""Have a local node of XMTP show a message: `python -m local.xmtp_publish URL CA_FILE INBOX GROUP TEXT`.

Inboxes and groups are simulated ones, by their names. The message carries the inbox's own HMAC, as its SDK would attach.
"""

import argparse
import asyncio
from pathlib import Path

import grpc
import grpc.aio

from clarion.networks.xmtp import decode
from clarion.networks.xmtp.wire_pb2 import NodeEnvelope
from local.xmtp_device import ChatGroup, Inbox
from local.xmtp_node import SERVICE, SHOW


async def publish(url: str, authorities: bytes, topic: str, message: bytes) -> bytes:
    """The envelope as the node shows it. `authorities` are certificates in PEM."""
    credentials = grpc.ssl_channel_credentials(authorities)
    async with grpc.aio.secure_channel(url.removeprefix("https://"), credentials) as channel:
        show: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{SHOW}")
        return await show(NodeEnvelope(content_topic=topic, message=message).SerializeToString(), timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m local.xmtp_publish", description=__doc__)
    parser.add_argument("url", help="the node's address, https://")
    parser.add_argument("ca_file", type=Path, help="the certificate authority of the local system")
    parser.add_argument("inbox", help="who sends it, such as Alice")
    parser.add_argument("group", help="the group's name, from which its topic is made")
    parser.add_argument("text", help="what to say")
    parser.add_argument("--reaction", action="store_true", help="of a kind that is not pushed")
    arguments = parser.parse_args()
    group = ChatGroup(arguments.group)
    message = Inbox(arguments.inbox).message(group, arguments.text.encode(), should_push=not arguments.reaction)
    authorities = arguments.ca_file.read_bytes()
    shown = asyncio.run(publish(arguments.url, authorities, group.topic, message))
    print(f"0x{decode(shown).id.hex()} on {group.topic}")


if __name__ == "__main__":
    main()
