"""`push/e2ee/register`: a device's sealed registration, opened and kept as a subscription.

    no row              written, under the id that follows from what the device is
    active              as it is; written anew if this was sealed later than what is there
    ended, sealed since active again under the same id, as of now; a time is known by its second
    ended, sealed before refused as too old: its token was found dead after it was sealed, so the app has to begin anew

Each write is conditional, so that of several at once one counts, and the others find what it has written.
"""

import time
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, Self
from uuid import UUID

from pydantic import Field, model_validator

from api.networks.zulip.arguments import Arguments
from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError, not_ready
from api.networks.zulip.token_ids import number_of
from api.problems import contended
from clarion import subscriptions
from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.events import SubscriptionChanged
from clarion.networks import ZULIP
from clarion.networks.zulip.devices import (
    ID_RANGE,
    KEY_PREFIX_BYTES,
    DeviceData,
    Profile,
    device_id,
    device_id_of_account,
    pack,
    unpack,
)
from clarion.networks.zulip.needs import BOUNCER_KEYS_UNKNOWN, REGISTRATIONS_STALE
from clarion.networks.zulip.registration import PushRegistration, RegistrationCode, RegistrationError
from clarion.subscriptions import Registration
from clarion.tables import Subscription, find_subscription

WHEN_FULL = 3600
"""Seconds until a server with all the devices that it may have should try again."""
_COUNTED = {
    RegistrationCode.REQUEST_EXPIRED: REGISTRATIONS_STALE,
    RegistrationCode.INVALID_BOUNCER_PUBLIC_KEY: BOUNCER_KEYS_UNKNOWN,
}


class DeviceArguments(Arguments):
    """A shipped server gives the `token_id`, one of the proposal's the `push_account_id`."""

    realm_uuid: UUID
    encrypted_push_registration: str = Field(repr=False)
    bouncer_public_key: str
    token_id: str | None = None
    push_account_id: Annotated[int, Field(ge=ID_RANGE.start, lt=ID_RANGE.stop)] | None = None

    @model_validator(mode="after")
    def _of_one_profile(self) -> Self:
        if (self.token_id is None) == (self.push_account_id is None):
            raise ValueError("either token_id or push_account_id is needed")
        return self


class DeviceRegistration(NamedTuple):
    """What is to be written."""

    registration: Registration
    data: DeviceData


def register(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(DeviceArguments)
    call.realm(asked.realm_uuid)
    device = _device(call, asked, _opened(call, asked))
    _put(call, device)
    shipped = device.data.profile is Profile.SHIPPED
    return {} if shipped else {"device_id": device.registration.subscription_id}


def _opened(call: ServerCall, asked: DeviceArguments) -> PushRegistration:
    sealed, public_key, now = asked.encrypted_push_registration, asked.bouncer_public_key, call.now // 1000
    try:
        return call.worker.keys.open(sealed, public_key, token_id=asked.token_id, now=now)
    except RegistrationError as error:
        if error.code in _COUNTED:
            call.worker.count(_COUNTED[error.code])
        raise ZulipError(ZulipCode[error.code], str(error)) from None


def _device(call: ServerCall, asked: DeviceArguments, opened: PushRegistration) -> DeviceRegistration:
    profile, number = _named(asked)
    server, realm = call.server_uuid, asked.realm_uuid
    if profile is Profile.SHIPPED:
        subscription_id = device_id(server, realm, number)
    else:
        subscription_id = device_id_of_account(server, realm, sha256(opened.token.encode()).digest(), number)
    # One that claims to be of the future is as new as any can be.
    sealed_at = min(int(opened.sealed_at), call.now // 1000)
    data = DeviceData(profile, realm, number, b64decode(asked.bouncer_public_key)[:KEY_PREFIX_BYTES], sealed_at)
    registration = Registration(
        ZULIP,
        call.server.client_id,
        Channel(opened.token_kind),
        opened.token,
        _app(call, opened),
        subscription_id=subscription_id,
        network_data=pack(data),
    )
    return DeviceRegistration(registration, data)


def _named(asked: DeviceArguments) -> tuple[Profile, int]:
    if asked.push_account_id is not None:
        return Profile.PROPOSED, asked.push_account_id
    return Profile.SHIPPED, number_of(asked.token_id or "")


def _app(call: ServerCall, opened: PushRegistration) -> str:
    """The name of the app that the token is for."""
    settings, channel = call.worker.settings, Channel(opened.token_kind)
    app = settings.fcm_app if opened.ios_app_id is None else settings.apns_apps.get(opened.ios_app_id)
    if app is None or channel not in settings.push_queues:
        raise ZulipError(ZulipCode.BAD_REQUEST, "This service has no credentials for the device's app")
    return app


def _put(call: ServerCall, device: DeviceRegistration) -> None:
    for attempt in range(WRITE_ATTEMPTS):
        row = find_subscription(str(device.registration.subscription_id))
        if row is not None and _is_there(row, device.data):
            return
        if _written(call, row, device.registration):
            return
        time.sleep(back_off(attempt))
    raise contended()


def _is_there(row: Subscription, data: DeviceData) -> bool:
    """Whether there is nothing to write. Raises `ZulipError` for what was sealed in a second before the row ended."""
    if row.status == SubscriptionStatus.ACTIVE:
        return unpack(row.network_data).sealed_at >= data.sealed_at
    if data.sealed_at < row.updated_at // 1000:
        raise ZulipError(ZulipCode.REQUEST_EXPIRED, "The registration was sealed before its token was found dead")
    return False


def _written(call: ServerCall, row: Subscription | None, registration: Registration) -> bool:
    connection, now = call.worker.connection, call.now
    if row is None:
        _require_space(call)
        made = subscriptions.register(connection, registration, now=now)
    else:
        made = subscriptions.move(connection, row, registration, now=now)
    if not isinstance(made, Subscription):
        return False
    call.worker.events.add(SubscriptionChanged.of(made, now))
    return True


def _require_space(call: ServerCall) -> None:
    """Raises what a server tries again: a 429 is final to a registration."""
    most = int(call.server.devices_most or call.worker.settings.devices_per_server)
    if not call.worker.device_quota.take(call.server.client_id, most):
        raise not_ready(f"at most {most} devices of one server", WHEN_FULL)
