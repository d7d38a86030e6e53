import subprocess
import sys
from pathlib import Path

from clarion.networks.xmtp.wire import read_conversation_message, read_group_message
from clarion.networks.xmtp.wire_pb2 import ConversationMessage

ROOT = Path(__file__).parents[3]
PLACES = (ROOT / "layers" / "core", ROOT / "functions")
IMPORTED = """
import sys
from clarion.networks.xmtp import MalformedEnvelope, decide, sender_hmac_key_v2, sender_hmac_key_v3
heavy = ("google", "grpc", "boto3", "botocore", "cryptography")
print(sorted(name for name in sys.modules if name.partition(".")[0] in heavy))
"""


def test_the_generated_modules_are_those_of_their_descriptions(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "proto.py", tmp_path], check=True)
    generated = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*_pb2.py*")}
    kept = {path.relative_to(place): path.read_bytes() for place in PLACES for path in place.rglob("*_pb2.py*")}
    assert generated
    assert generated == kept, "run `make proto`"


def test_the_package_is_imported_without_what_is_slow_to_import() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"


def test_a_version_before_or_after_the_known_one_is_not_read() -> None:
    assert read_conversation_message(ConversationMessage(v1=b"").SerializeToString()) is None
    assert read_group_message(b"\x12\x00") is None
