"""What the NTF server is known by."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from pydantic import ValidationError

from clarion.networks.simplex.server_identity import ServerIdentity

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture(scope="module")
def identity() -> ServerIdentity:
    return ServerIdentity.generate(NOW)


def test_the_identity_signs_itself_and_the_leaf_and_neither_expires(identity: ServerIdentity) -> None:
    leaf, root = x509.load_pem_x509_certificates(identity.chain.encode())
    root.verify_directly_issued_by(root)
    leaf.verify_directly_issued_by(root)
    for certificate in (leaf, root):
        assert certificate.not_valid_before_utc < NOW
        assert certificate.not_valid_after_utc.year == 9999
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_its_text_is_read_back(identity: ServerIdentity) -> None:
    assert ServerIdentity.model_validate_json(identity.text) == identity


@pytest.mark.parametrize("part", ["identity_certificate", "identity_key", "leaf_certificate", "leaf_key"])
def test_parts_of_different_identities_are_refused_and_not_repeated(identity: ServerIdentity, part: str) -> None:
    other = ServerIdentity.generate(NOW)
    parts = {**identity.model_dump(), part: getattr(other, part)}
    with pytest.raises(ValidationError) as refused:
        ServerIdentity.model_validate(parts)
    assert "BEGIN" not in str(refused.value)


def test_what_is_no_pem_is_refused(identity: ServerIdentity) -> None:
    for part in ServerIdentity.model_fields:
        with pytest.raises(ValidationError):
            ServerIdentity.model_validate({**identity.model_dump(), part: "random letters"})
