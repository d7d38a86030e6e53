from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion import base64url, compact_json
from clarion.networks.walletconnect import CacaoFlaw, Identity, InvalidCacao, check_cacao, recap
from clarion.networks.walletconnect.identity import ALL_DOMAINS, IDENTITY_KEY, NOTIFY, THIS_DOMAIN
from clarion.networks.walletconnect.siwe import SiwePayload, message_of
from tests.networks.walletconnect.conftest import Vector, read
from tests.walletconnect import THIS_APP, Wallet

NOW = read()["now"]
EVERY_FIELD = """app.example.com wants you to sign in with your Ethereum account:
{address}

{statement}

URI: {key}
Version: 1
Chain ID: 1
Nonce: 32891756
Issued At: 2023-11-14T22:13:20.000Z
Expiration Time: 2023-11-15T00:00:00+01:00
Not Before: 2023-11-14T22:00:00Z
Request ID: a request
Resources:
- https://keys.example.com
- ipfs://an/agreement"""
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text())
)


def outcome(wallet: Wallet, cacao: Mapping[str, Any], **others: Any) -> str | Identity:
    asked = {"identity_public_key": wallet.identity_public_key, "subject": wallet.subject, "now": NOW}
    try:
        return check_cacao(cacao, **(asked | others))
    except InvalidCacao as refused:
        return refused.reason


def of_any_app(wallet: Wallet) -> Identity:
    return Identity(wallet.account, None)


def with_recap(wallet: Wallet, content: object, **fields: Any) -> dict[str, Any]:
    """A CACAO whose statement is that of its ReCap, if it has one."""
    uri = recap.PREFIX + base64url.encode(compact_json.encode(content))
    try:
        statement = recap.statement_of(recap.parse(uri))
    except ValueError:
        statement = THIS_APP
    return wallet.cacao(**({"statement": statement, "resources": [uri]} | fields))


def ability(name: str, restrictions: object = ({},)) -> dict[str, Any]:
    return {"att": {NOTIFY: {name: restrictions}}}


def test_a_cacao_is_taken_or_refused_as_the_reference_does(vectors: Vector, cacao_vector: Vector) -> None:
    expected = cacao_vector["expect"]
    asked = {
        "identity_public_key": cacao_vector["identity_public_key"],
        "subject": cacao_vector["sub"],
        "now": vectors["now"],
    }
    cacao = cacao_vector["keys_server_response"]["value"]["cacao"]
    if expected["ok"]:
        assert check_cacao(cacao, **asked) == Identity(expected["account"], expected["app"])
        return
    with pytest.raises(InvalidCacao) as refused:
        check_cacao(cacao, **asked)
    assert refused.value.reason == expected["error"]


def test_the_text_is_the_one_that_was_signed(cacao_vector: Vector) -> None:
    payload = SiwePayload.model_validate(cacao_vector["keys_server_response"]["value"]["cacao"]["p"])
    assert message_of(payload) == cacao_vector["siwe_message"]


def test_what_the_real_client_registered_is_for_any_app(vectors: Vector) -> None:
    ((key, cacao),) = vectors["live_capture"]["cacaos"].items()
    account = vectors["account"]
    identity = check_cacao(cacao, identity_public_key=key, subject=account["did_pkh"], now=NOW)
    assert identity == Identity(account["caip10"], None)


def test_the_text_has_every_field_in_its_place(wallet: Wallet) -> None:
    payload = wallet.payload(
        exp="2023-11-15T00:00:00+01:00",
        nbf="2023-11-14T22:00:00Z",
        requestId="a request",
        resources=["https://keys.example.com", "ipfs://an/agreement"],
    )
    address = wallet.account.rpartition(":")[2]
    text = EVERY_FIELD.format(address=address, statement=THIS_APP, key=wallet.key_did)
    assert outcome(wallet, wallet.signed(payload, text)) == Identity(wallet.account, "app.example.com")


@pytest.mark.parametrize("statement", sorted(THIS_DOMAIN | ALL_DOMAINS))
def test_a_statement_is_for_this_domain_or_for_all(wallet: Wallet, statement: str) -> None:
    app = "app.example.com" if statement in THIS_DOMAIN else None
    assert outcome(wallet, wallet.cacao(statement=statement)) == Identity(wallet.account, app)


@given(statement=st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])))
def test_any_other_statement_allows_nothing(wallet: Wallet, statement: str) -> None:
    for other in (statement, THIS_APP + statement + ".", statement + " " + THIS_APP):
        assert outcome(wallet, wallet.cacao(statement=other)) == "CacaoStatementInvalid"


@given(
    field=st.sampled_from(
        ["domain", "iss", "aud", "version", "nonce", "iat", "statement", "exp", "nbf", "requestId", "resources"]
    ),
    value=VALUES,
)
def test_no_field_can_be_another_than_what_was_signed(wallet: Wallet, field: str, value: object) -> None:
    """But for what says nothing: a field that is null, or a list of no resources."""
    cacao = wallet.cacao()
    same = cacao["p"].get(field) == value or (field == "resources" and value == [])
    cacao["p"][field] = value
    found = outcome(wallet, cacao)
    assert isinstance(found, Identity) is same
    assert same or found in {"CacaoVerification", "CacaoAccountId"}


@pytest.mark.parametrize("field", ["domain", "statement", "nonce", "iat", "requestId"])
@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n"])
def test_a_line_break_in_a_field_is_refused(wallet: Wallet, field: str, line_break: str) -> None:
    """Of one signed text there is one reading."""
    payload = wallet.payload()
    payload[field] = f"{payload.get(field)}{line_break}URI: elsewhere"
    text = message_of(SiwePayload.model_construct(**payload))
    assert outcome(wallet, wallet.signed(payload, text)) == "CacaoVerification"


def test_a_text_that_another_signed_is_refused(wallet: Wallet) -> None:
    cacao = wallet.cacao()
    payload = SiwePayload.model_validate(cacao["p"])
    cacao["s"]["s"] = Wallet(b"o" * 32).personal_sign(message_of(payload)).hex()
    assert outcome(wallet, cacao) == "CacaoVerification"


@pytest.mark.parametrize("header", ["eip4361", "caip122"])
def test_the_text_goes_by_two_names(wallet: Wallet, header: str) -> None:
    assert isinstance(outcome(wallet, wallet.cacao() | {"h": {"t": header}}), Identity)
    assert outcome(wallet, wallet.cacao() | {"h": {"t": header + "?"}}) == "CacaoVerification"


def test_a_contracts_signature_cannot_be_judged_here(wallet: Wallet) -> None:
    cacao = wallet.cacao()
    cacao["s"]["t"] = "eip1271"
    assert outcome(wallet, cacao) == "CacaoContractSignature"


@pytest.mark.parametrize(
    ("audience", "fine"),
    [
        ("{key}", True),
        ("https://app.example.com?{name}={key}", True),
        ("https://app.example.com/page?a=b&{name}={key}#there", True),
        ("https://app.example.com?{name}=did%3Akey%3A{bare}", True),
        ("https://app.example.com?{name}={key}&{name}={key}", False),
        ("https://app.example.com?{name}={key}0", False),
        ("https://app.example.com?{name}=", False),
        ("https://app.example.com#?{name}=", False),
        ("https://app.example.com?other={key}", False),
        ("https://app.example.com", False),
        ("{bare}", False),
        ("{key}0", False),
    ],
)
def test_the_audience_names_the_key(wallet: Wallet, audience: str, fine: bool) -> None:
    named = audience.format(key=wallet.key_did, name=IDENTITY_KEY, bare=wallet.identity_public_key)
    found = outcome(wallet, wallet.cacao(aud=named))
    assert found == (Identity(wallet.account, "app.example.com") if fine else "CacaoWrongIdentityKey")


def test_another_key_or_another_account_is_not_meant(wallet: Wallet) -> None:
    other = Wallet(b"o" * 32)
    assert outcome(wallet, wallet.cacao(), identity_public_key=other.identity_public_key) == "CacaoWrongIdentityKey"
    assert outcome(wallet, wallet.cacao(), subject=other.subject) == "CacaoAccountMismatch"
    on_another_chain = wallet.subject.replace(":1:", ":137:")
    assert outcome(wallet, wallet.cacao(), subject=on_another_chain) == "CacaoAccountMismatch"


@pytest.mark.parametrize(
    ("field", "second", "expected"),
    [
        ("exp", 0, "CacaoExpired"),
        ("exp", 1, None),
        ("nbf", 0, None),
        ("nbf", 1, "CacaoNotYetValid"),
    ],
)
@pytest.mark.parametrize("zone", ["Z", "+00:00", ".000Z"])
def test_it_is_good_from_its_beginning_until_its_end(
    wallet: Wallet, field: str, second: int, expected: str | None, zone: str
) -> None:
    instant = datetime.fromtimestamp(NOW + second, UTC).isoformat().removesuffix("+00:00") + zone
    found = outcome(wallet, wallet.cacao(**{field: instant}))
    assert found == (expected or Identity(wallet.account, "app.example.com"))


@pytest.mark.parametrize("instant", ["", "soon", "2023-11-14T22:13:20", "1700000000", "0001-01-01T00:00:00+25:00"])
@pytest.mark.parametrize("field", ["exp", "nbf"])
def test_what_names_no_instant_is_refused(wallet: Wallet, field: str, instant: str) -> None:
    cacao = wallet.cacao()
    cacao["p"][field] = instant
    assert outcome(wallet, cacao) == "CacaoVerification"


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_instants_at_the_ends_of_the_calendar_are_compared(wallet: Wallet, instant: str) -> None:
    past = instant.startswith("0")
    assert outcome(wallet, wallet.cacao(exp=instant)) == (
        "CacaoExpired" if past else Identity(wallet.account, "app.example.com")
    )
    assert outcome(wallet, wallet.cacao(nbf=instant)) == (
        Identity(wallet.account, "app.example.com") if past else "CacaoNotYetValid"
    )


def test_a_recap_is_for_one_app_or_for_all(wallet: Wallet) -> None:
    one = with_recap(wallet, ability("manage/other.example.com-notifications"))
    assert outcome(wallet, one) == Identity(wallet.account, "other.example.com")
    assert outcome(wallet, with_recap(wallet, ability("manage/all-apps-notifications"))) == of_any_app(wallet)


def test_before_the_sentence_of_a_recap_people_may_have_said_more(wallet: Wallet) -> None:
    content = ability("manage/all-apps-notifications")
    cacao = with_recap(wallet, content)
    statement, resources = cacao["p"]["statement"], cacao["p"]["resources"]
    fine = wallet.cacao(statement=f"I agree. {statement}", resources=["https://keys.example.com", *resources])
    assert outcome(wallet, fine) == of_any_app(wallet)
    more = wallet.cacao(statement=f"{statement} (2) 'a': 'b' for 'c'.", resources=resources)
    assert outcome(wallet, more) == "CacaoStatementDoesNotMatchRecap"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, "CacaoRecapParse"),
        ({"att": {"https://example.com": {}}}, "CacaoRecapNoNotifyUri"),
        ({"att": {NOTIFY: {}}}, "CacaoRecapAbility"),
        (ability("manage/a-notifications", []), "CacaoRecapAbility"),
        (ability("manage/a-notifications", [{}, {}]), "CacaoRecapAbility"),
        (ability("manage/a-notifications", [{"until": "noon"}]), "CacaoRecapAbility"),
        (ability("read/a-notifications"), "CacaoRecapAbility"),
        (ability("manage/a-messages"), "CacaoRecapAbility"),
        (ability("manage/a_b-notifications"), "CacaoRecapAbility"),
        (ability("manage/-notifications"), "CacaoRecapAbility"),
        (
            {"att": {NOTIFY: {"manage/a-notifications": [{}], "manage/b-notifications": [{}]}}},
            "CacaoRecapAbility",
        ),
    ],
)
def test_a_recap_that_allows_something_else_allows_nothing(wallet: Wallet, content: object, expected: str) -> None:
    assert outcome(wallet, with_recap(wallet, content)) == expected


def test_a_recap_is_the_last_resource(wallet: Wallet) -> None:
    content = ability("manage/all-apps-notifications")
    last = with_recap(wallet, content)["p"]["resources"]
    assert (
        outcome(wallet, with_recap(wallet, content, resources=[*last, "https://keys.example.com"])) == "CacaoRecapParse"
    )
    assert outcome(wallet, with_recap(wallet, content, resources=last * 2)) == "CacaoMoreThanOneRecapUri"


@given(cacao=st.dictionaries(st.sampled_from(["h", "p", "s"]) | st.text(), VALUES))
def test_anything_else_is_refused(wallet: Wallet, cacao: dict[str, Any]) -> None:
    assert outcome(wallet, cacao) == "CacaoVerification"
    spoilt = not cacao.keys().isdisjoint({"h", "p", "s"})
    assert (outcome(wallet, wallet.cacao() | cacao) == "CacaoVerification") is spoilt


@given(signature=st.text() | st.binary(min_size=65, max_size=65).map(bytes.hex))
def test_any_other_signature_is_refused(wallet: Wallet, signature: str) -> None:
    cacao = wallet.cacao()
    cacao["s"]["s"] = signature
    assert outcome(wallet, cacao) == "CacaoVerification"


def test_no_error_quotes_the_cacao(wallet: Wallet) -> None:
    with pytest.raises(InvalidCacao) as refused:
        check_cacao(
            wallet.cacao(statement="secret"),
            identity_public_key=wallet.identity_public_key,
            subject=wallet.subject,
            now=NOW,
        )
    assert str(refused.value) == refused.value.reason == CacaoFlaw.STATEMENT_INVALID
    assert refused.value.__cause__ is None
