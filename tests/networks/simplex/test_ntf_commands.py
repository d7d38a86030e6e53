import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf_commands import (
    DeviceToken,
    NtfCommand,
    NtfProvider,
    NtfRefusal,
    PlainCommand,
    RegisterToken,
    ReplaceToken,
    ScheduleWakeUps,
    SubscribeQueue,
    VerifyToken,
    read_command,
)

ED25519_DER = bytes.fromhex("302a300506032b6570032100") + b"e" * 32
X25519_DER = bytes.fromhex("302a300506032b656e032100") + b"x" * 32
ED448_DER = bytes.fromhex("3043300506032b6571033a00") + b"4" * 57
PRIVATE_DER = bytes.fromhex("302e020100300506032b657004220420") + b"p" * 32
IDENTITY = b"i" * 32
QUEUE = SmpQueue(SmpServer(("a.example",), "", IDENTITY), b"notifier")

TNEW = b"TNEW TAP\x03tok" + b"\x2c" + ED25519_DER + b"\x2c" + X25519_DER
SNEW = b"SNEW S\x02id" + b"\x01\x09a.example" + b"\x00" + b"\x20" + IDENTITY + b"\x08notifier" + b"\x30" + PRIVATE_DER
COMMANDS: list[tuple[bytes, NtfCommand]] = [
    (TNEW, RegisterToken(DeviceToken(NtfProvider.APNS, b"tok"), ED25519_DER, X25519_DER)),
    (b"TVFY \x04code", VerifyToken(b"code")),
    (b"TCHK", PlainCommand.CHECK_TOKEN),
    (b"TRPL AD\x03tok", ReplaceToken(DeviceToken(NtfProvider.APNS_SANDBOX, b"tok"))),
    (b"TDEL", PlainCommand.DELETE_TOKEN),
    (b"TCRN \x00\x14", ScheduleWakeUps(20)),
    (b"TCRN \x20\x20", ScheduleWakeUps(0x2020)),
    (SNEW, SubscribeQueue(b"id", QUEUE, PRIVATE_DER)),
    (b"SCHK", PlainCommand.CHECK_SUBSCRIPTION),
    (b"SDEL", PlainCommand.DELETE_SUBSCRIPTION),
    (b"PING", PlainCommand.PING),
]
NEW = (b"TNEW", b"SNEW")


def read(raw: bytes) -> NtfCommand:
    """With the credentials that its tag asks for."""
    has_authorization = raw[:4] != b"PING"
    return read_command(raw, has_authorization=has_authorization, has_entity=has_authorization and raw[:4] not in NEW)


def outcome(raw: bytes) -> NtfCommand | ErrorType:
    try:
        return read(raw)
    except NtfRefusal as refused:
        return refused.error


def error(raw: bytes, *, authorization: bool = True, entity: bool = True) -> ErrorType:
    with pytest.raises(NtfRefusal) as refused:
        read_command(raw, has_authorization=authorization, has_entity=entity)
    return refused.value.error


@pytest.mark.parametrize(("raw", "command"), COMMANDS)
def test_each_command_is_read(raw: bytes, command: NtfCommand) -> None:
    assert read(raw) == command


@pytest.mark.parametrize("provider", NtfProvider)
def test_each_provider_has_two_letters(provider: NtfProvider) -> None:
    assert read(b"TRPL " + provider.encode() + b"\0") == ReplaceToken(DeviceToken(provider, b""))


def test_a_token_may_be_its_owners_by_any_kind_of_key() -> None:
    for size, key in ((b"\x2c", X25519_DER), (b"\x45", ED448_DER)):
        command = read(b"TNEW TAT\x00" + size + key + b"\x2c" + X25519_DER)
        assert command == RegisterToken(DeviceToken(NtfProvider.TEST, b""), key, X25519_DER)


@pytest.mark.parametrize("raw", [raw for raw, _ in COMMANDS])
def test_nothing_may_follow_or_lack(raw: bytes) -> None:
    assert error(raw + b" ") is error(raw + b" x") is ErrorType.CMD_SYNTAX
    assert error(raw[:-1]) in {ErrorType.CMD_SYNTAX, ErrorType.CMD_UNKNOWN}


@pytest.mark.parametrize(
    "raw",
    [
        b"TNEW",
        b"TVFY",
        b"TVFY \x05code",
        b"TRPL XX\x00",
        b"TCRN \x00",
        TNEW.replace(b"TAP", b"SAP"),
        SNEW.replace(b" S\x02", b" T\x02"),
        b"TNEW TAP\x00" + b"\x2c" + ED25519_DER + b"\x2c" + ED25519_DER,
        b"TNEW TAP\x00" + b"\x2b" + ED25519_DER[:-1] + b"\x2c" + X25519_DER,
        SNEW.replace(PRIVATE_DER, ED25519_DER + b"abcd"),
        SNEW.replace(b"a.example", b"a example"),
    ],
)
def test_what_is_written_otherwise_is_a_syntax_error(raw: bytes) -> None:
    assert error(raw) is ErrorType.CMD_SYNTAX


@pytest.mark.parametrize("raw", [b"", b" ", b"TNEX", b"tchk", b"TCHKS", b"NSUB", b" TCHK", b"\xff"])
def test_another_tag_is_unknown(raw: bytes) -> None:
    assert error(raw) is ErrorType.CMD_UNKNOWN


@pytest.mark.parametrize("raw", [TNEW, SNEW])
def test_what_is_new_is_authorized_and_has_no_entity(raw: bytes) -> None:
    assert error(raw, authorization=False, entity=False) is ErrorType.CMD_NO_AUTH
    assert error(raw, authorization=False) is ErrorType.CMD_NO_AUTH
    assert error(raw) is ErrorType.CMD_HAS_AUTH


@pytest.mark.parametrize(("authorization", "entity"), [(True, True), (True, False), (False, True)])
def test_a_ping_has_neither(authorization: bool, entity: bool) -> None:
    assert error(b"PING", authorization=authorization, entity=entity) is ErrorType.CMD_HAS_AUTH


@pytest.mark.parametrize("raw", [raw for raw, _ in COMMANDS if raw[:4] not in {*NEW, b"PING"}])
@pytest.mark.parametrize(("authorization", "entity"), [(False, False), (True, False), (False, True)])
def test_all_others_have_both(raw: bytes, authorization: bool, entity: bool) -> None:
    assert error(raw, authorization=authorization, entity=entity) is ErrorType.CMD_NO_AUTH


@pytest.mark.parametrize(("raw", "expected"), [(b"TCHK x", ErrorType.CMD_SYNTAX), (b"TXXX", ErrorType.CMD_UNKNOWN)])
def test_it_is_read_before_its_credentials(raw: bytes, expected: ErrorType) -> None:
    assert error(raw, authorization=False, entity=False) is expected


@given(
    raw=st.sampled_from([raw for raw, _ in COMMANDS]),
    at=st.integers(0, 400),
    inserted=st.binary(max_size=3),
    cut=st.integers(0, 3),
)
def test_however_it_is_changed_it_is_read_or_refused(raw: bytes, at: int, inserted: bytes, cut: int) -> None:
    place = at % (len(raw) + 1)
    changed = raw[:place] + inserted + raw[place + cut :]
    assert (outcome(changed) == read(raw)) == (changed == raw)


def test_no_secret_shows() -> None:
    shown = "".join(repr(command) for _, command in COMMANDS)
    assert not [secret for secret in ("tok", "code", "eeee", "xxxx", "pppp", "notifier'") if f"b'{secret}" in shown]
    assert "VerifyToken()" in shown
