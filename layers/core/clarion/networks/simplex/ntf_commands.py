"""What agents ask of the NTF server. `key` stands for the DER of one, as a short string.

    TNEW T provider token key key       a token; by the first key its owner signs, by the other one pushes are encrypted
    TVFY code                           it is verified: the code has been pushed to it
    TCHK                                its status
    TRPL provider token                 another token instead
    TDEL
    TCRN minutes (2 bytes)              how often it is to be woken without a message, 0 for never
    SNEW S token-id queue key           a subscription; by the key the queue's server takes a notifier
    SCHK                                its status
    SDEL
    PING

A space follows the tag of whatever has arguments, and nothing follows them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from clarion.networks.simplex.addresses import SmpQueue, read_queue
from clarion.networks.simplex.credentials import dh_key, private_key, public_key
from clarion.networks.simplex.encoding import MalformedSimplex, Reader
from clarion.networks.simplex.errors import ErrorType


class NtfProvider(StrEnum):
    """Whom a token is of: Apple's sandbox, Apple, a test's stand-in, or nobody, so that nothing is pushed."""

    APNS_SANDBOX = "AD"
    APNS = "AP"
    TEST = "AT"
    NONE = "AN"


class PlainCommand(StrEnum):
    """Those without arguments."""

    CHECK_TOKEN = "TCHK"  # noqa: S105 - a tag
    DELETE_TOKEN = "TDEL"  # noqa: S105 - a tag
    CHECK_SUBSCRIPTION = "SCHK"
    DELETE_SUBSCRIPTION = "SDEL"
    PING = "PING"


@dataclass(frozen=True, slots=True)
class DeviceToken:
    """As the agent sent it: `token` is unchecked."""

    provider: NtfProvider
    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RegisterToken:
    """Its keys are DER, of a known kind and of X25519."""

    token: DeviceToken
    owner_key: bytes = field(repr=False)
    dh_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class VerifyToken:
    code: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplaceToken:
    token: DeviceToken


@dataclass(frozen=True, slots=True)
class ScheduleWakeUps:
    """`minutes` is 0 for never."""

    minutes: int


@dataclass(frozen=True, slots=True)
class SubscribeQueue:
    """`notifier_key` is the DER of a private key of a known kind."""

    token_id: bytes = field(repr=False)
    queue: SmpQueue
    notifier_key: bytes = field(repr=False)


type NtfCommand = PlainCommand | RegisterToken | VerifyToken | ReplaceToken | ScheduleWakeUps | SubscribeQueue


class NtfRefusal(ValueError):  # noqa: N818 - it is an answer of the protocol
    """A command that is answered with `error`."""

    def __init__(self, error: ErrorType) -> None:
        super().__init__(error)
        self.error = error


def read_command(raw: bytes, *, has_authorization: bool, has_entity: bool) -> NtfCommand:
    """Raises `NtfRefusal`: first for what can't be read, then for credentials that its command must have, or can't."""
    command = _parse(raw)
    if error := _credentials_error(command, has_authorization=has_authorization, has_entity=has_entity):
        raise NtfRefusal(error)
    return command


def _parse(raw: bytes) -> NtfCommand:
    tag, space, arguments = raw.partition(b" ")
    try:
        if tag in _PLAIN:
            Reader(space + arguments).end()
            return PlainCommand(tag.decode())
        if tag in _WITH_ARGUMENTS:
            return _with_arguments(_WITH_ARGUMENTS[tag], arguments)
    except MalformedSimplex:
        raise NtfRefusal(ErrorType.CMD_SYNTAX) from None
    raise NtfRefusal(ErrorType.CMD_UNKNOWN)


def _with_arguments(read: Callable[[Reader], NtfCommand], arguments: bytes) -> NtfCommand:
    reader = Reader(arguments)
    command = read(reader)
    reader.end()
    return command


def _credentials_error(command: NtfCommand, *, has_authorization: bool, has_entity: bool) -> ErrorType | None:
    match command:
        case PlainCommand.PING:
            return ErrorType.CMD_HAS_AUTH if has_authorization or has_entity else None
        case RegisterToken() | SubscribeQueue() if has_authorization:
            return ErrorType.CMD_HAS_AUTH if has_entity else None
        case RegisterToken() | SubscribeQueue():
            return ErrorType.CMD_NO_AUTH
    return None if has_authorization and has_entity else ErrorType.CMD_NO_AUTH


def _register(reader: Reader) -> RegisterToken:
    reader.expect(b"T")
    command = RegisterToken(_device_token(reader), reader.short(), reader.short())
    public_key(command.owner_key)
    dh_key(command.dh_key)
    return command


def _verify(reader: Reader) -> VerifyToken:
    return VerifyToken(reader.short())


def _replace(reader: Reader) -> ReplaceToken:
    return ReplaceToken(_device_token(reader))


def _schedule(reader: Reader) -> ScheduleWakeUps:
    return ScheduleWakeUps(reader.word16())


def _subscribe(reader: Reader) -> SubscribeQueue:
    reader.expect(b"S")
    command = SubscribeQueue(reader.short(), read_queue(reader), reader.short())
    private_key(command.notifier_key)
    return command


def _device_token(reader: Reader) -> DeviceToken:
    kind = reader.take(2)
    if kind not in _PROVIDERS:
        raise MalformedSimplex("no such provider")
    return DeviceToken(_PROVIDERS[kind], reader.short())


_PLAIN = frozenset(command.encode() for command in PlainCommand)
_PROVIDERS = {provider.encode(): provider for provider in NtfProvider}
_WITH_ARGUMENTS: Mapping[bytes, Callable[[Reader], NtfCommand]] = {
    b"TNEW": _register,
    b"TVFY": _verify,
    b"TRPL": _replace,
    b"TCRN": _schedule,
    b"SNEW": _subscribe,
}
