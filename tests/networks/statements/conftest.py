import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sr25519
from scalecodec.base import RuntimeConfigurationObject, ScaleBytes

from clarion.networks.statements.codec import Proof, ProofKind, Statement
from clarion.networks.statements.signature import Keypair

_VECTORS = Path(__file__).parents[2] / "data" / "statement-store.json"
_PROOFS = {ProofKind.SR25519: "Sr25519", ProofKind.ED25519: "Ed25519", ProofKind.ECDSA: "Ecdsa"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vector" in metafunc.fixturenames:
        vectors = json.loads(_VECTORS.read_text())["vectors"]
        metafunc.parametrize("vector", vectors, ids=[vector["name"] for vector in vectors])


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """All vectors of the statement store, by name."""
    return {vector["name"]: vector for vector in json.loads(_VECTORS.read_text())["vectors"]}


@pytest.fixture(scope="session")
def wire(vectors: dict[str, Any]) -> Callable[[str], bytes]:
    """The encoded statement of the vector of that name."""
    return lambda name: bytes.fromhex(vectors[name]["statement"][2:])


@pytest.fixture(scope="session")
def alice() -> Keypair:
    pair: Keypair = sr25519.pair_from_seed(b"alice".ljust(32))
    return pair


# The wire format said a second time, as a type registry of `scalecodec`: independent of ours, though not strict.

_TYPES = {
    "Signed64": {"type": "struct", "type_mapping": [["signature", "[u8; 64]"], ["signer", "[u8; 32]"]]},
    "Signed65": {"type": "struct", "type_mapping": [["signature", "[u8; 65]"], ["signer", "[u8; 33]"]]},
    "StatementProof": {
        "type": "enum",
        "type_mapping": [["Sr25519", "Signed64"], ["Ed25519", "Signed64"], ["Ecdsa", "Signed65"]],
    },
    "StatementField": {
        "type": "enum",
        "type_mapping": [
            ["Proof", "StatementProof"],
            ["DecryptionKey", "[u8; 32]"],
            ["Expiry", "u64"],
            ["Channel", "[u8; 32]"],
            ["Topic1", "[u8; 32]"],
            ["Topic2", "[u8; 32]"],
            ["Topic3", "[u8; 32]"],
            ["Topic4", "[u8; 32]"],
            ["Data", "HexBytes"],
        ],
    },
    "Statement": "Vec<StatementField>",
}


@pytest.fixture(scope="session")
def scale_registry() -> RuntimeConfigurationObject:
    registry = RuntimeConfigurationObject()
    registry.update_type_registry({"types": _TYPES})
    return registry


@pytest.fixture(scope="session")
def oracle_encode(scale_registry: RuntimeConfigurationObject) -> Callable[[Statement], bytes]:
    def encode(statement: Statement) -> bytes:
        fields = [{name: value} for name, value in _named_fields(statement).items() if value is not None]
        return bytes(scale_registry.create_scale_object("Statement").encode(fields).data)

    return encode


@pytest.fixture(scope="session")
def oracle_decode(scale_registry: RuntimeConfigurationObject) -> Callable[[bytes], Statement]:
    def decode(raw: bytes) -> Statement:
        fields = scale_registry.create_scale_object("Statement", ScaleBytes(bytearray(raw))).decode()
        return _as_statement({name: value for field in fields for name, value in field.items()})

    return decode


def _named_fields(statement: Statement) -> dict[str, Any]:
    proof = statement.proof
    signed = proof and {_PROOFS[proof.kind]: {"signature": _hex(proof.signature), "signer": _hex(proof.signer)}}
    return {
        "Proof": signed,
        "DecryptionKey": _hex(statement.decryption_key),
        "Expiry": statement.expiry,
        "Channel": _hex(statement.channel),
        **{f"Topic{number}": _hex(topic) for number, topic in enumerate(statement.topics, 1)},
        "Data": _hex(statement.data),
    }


def _as_statement(named: dict[str, Any]) -> Statement:
    topics = [bytes.fromhex(value[2:]) for name, value in named.items() if name.startswith("Topic")]
    channel, key, data = (_unhex(named.get(name)) for name in ("Channel", "DecryptionKey", "Data"))
    return Statement(named["Expiry"], tuple(topics), data, channel, key, _as_proof(named.get("Proof")))


def _as_proof(value: dict[str, dict[str, str]] | None) -> Proof | None:
    if value is None:
        return None
    [(variant, signed)] = value.items()
    kind = next(kind for kind, name in _PROOFS.items() if name == variant)
    return Proof(kind, bytes.fromhex(signed["signature"][2:]), bytes.fromhex(signed["signer"][2:]))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else f"0x{value.hex()}"


def _unhex(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value.removeprefix("0x"))
