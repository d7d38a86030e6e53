"""`push/e2ee/register`: a device's sealed registration, opened and kept as a subscription.

    no row              written, under the id that follows from what the device is
    active              as it is; written anew if this was sealed later than what is there
    ended, sealed since active again under the same id, as of now; a time is known by its second
    ended, sealed before refused as too old: its token was found dead after it was sealed, so the app has to begin anew

A device's clock may be ahead. So what was sealed no later than what is there counts as sealed before the end, too:
otherwise a registration of the future, handed over again, would bring a dead token back again and again.

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
from api.networks.zulip.token_space import require_token_space
from api.problems import contended
from clarion import subscriptions
from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.networks import ZULIP
from clarion.networks.zulip.devices import (
    ID_RANGE,
    KEY_PREFIX_BYTES,
    LATEST,
    DeviceData,
    Profile,
    device_id,
    device_id_of_account,
    pack,
    unpack,
)
from clarion.networks.zulip.needs import BOUNCER_KEYS_UNKNOWN, REGISTRATIONS_STALE
from clarion.networks.zulip.registration import PushRegistration, RegistrationCode, RegistrationError
from clarion.subscription_events import SubscriptionChanged
from clarion.subscriptions import Registration
from clarion.tables import Subscription, find_subscription

FULL_RETRY_S = 3600
"""When a server with all the devices that it may have should try again."""
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
            raise ValueError("exactly one of token_id and push_account_id is needed")
        return self

    @property
    def profile(self) -> Profile:
        return Profile.SHIPPED if self.push_account_id is None else Profile.PROPOSED

    @property
    def number(self) -> int:
        """As in `DeviceData`. Raises `ValueError` for a `token_id` that is none."""
        return number_of(self.token_id or "") if self.push_account_id is None else self.push_account_id

    def subscription_id(self, server: UUID, token: str) -> str:
        if self.profile is Profile.SHIPPED:
            return device_id(server, self.realm_uuid, self.number)
        return device_id_of_account(server, self.realm_uuid, sha256(token.encode()).digest(), self.number)


class DeviceRegistration(NamedTuple):
    """What is to be written."""

    registration: Registration
    data: DeviceData


def register(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(DeviceArguments)
    call.realm(asked.realm_uuid)
    device = _device(call, asked, _opened(call, asked))
    _put(call, device)
    shipped = asked.profile is Profile.SHIPPED
    return {} if shipped else {"device_id": device.registration.subscription_id}


def _opened(call: ServerCall, asked: DeviceArguments) -> PushRegistration:
    sealed, public_key, now_s = asked.encrypted_push_registration, asked.bouncer_public_key, call.now // 1000
    try:
        return call.worker.keys.open(sealed, public_key, token_id=asked.token_id, now=now_s)
    except RegistrationError as error:
        if error.code in _COUNTED:
            call.worker.count(_COUNTED[error.code])
        raise ZulipError(ZulipCode[error.code], str(error)) from None


def _device(call: ServerCall, asked: DeviceArguments, opened: PushRegistration) -> DeviceRegistration:
    key_prefix, sealed_at = b64decode(asked.bouncer_public_key)[:KEY_PREFIX_BYTES], min(int(opened.sealed_at), LATEST)
    data = DeviceData(asked.profile, asked.realm_uuid, asked.number, key_prefix, sealed_at)
    registration = Registration(
        ZULIP,
        call.server.client_id,
        Channel(opened.token_kind),
        opened.token,
        _app(call, opened),
        subscription_id=asked.subscription_id(call.server_uuid, opened.token),
        network_data=pack(data),
    )
    return DeviceRegistration(registration, data)


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
        if row is not None and _is_up_to_date(row, device.data):
            return
        if _write(call, row, device.registration):
            return
        time.sleep(back_off(attempt))
    raise contended()


def _is_up_to_date(row: Subscription, data: DeviceData) -> bool:
    """Whether there is nothing to write. Raises `ZulipError` for what was sealed before the row ended."""
    known = unpack(row.network_data)
    if row.status == SubscriptionStatus.ACTIVE:
        return known.sealed_at >= data.sealed_at
    if data.sealed_at <= known.sealed_at or data.sealed_at < row.updated_at // 1000:
        raise ZulipError(
            ZulipCode.REQUEST_EXPIRED,
            "Its token was found dead after it was sealed, or it is no newer than what is there",
        )
    return False


def _write(call: ServerCall, row: Subscription | None, registration: Registration) -> bool:
    """Whether nobody else has written meanwhile. Raises `ZulipError` for a device too many."""
    connection, now = call.worker.connection, call.now
    if row is None or row.status != SubscriptionStatus.ACTIVE:
        require_token_space(call, registration)
    if row is None:
        _require_device_quota(call)
        made = subscriptions.register(connection, registration, now=now)
    else:
        made = subscriptions.move(connection, row, registration, now=now)
    if not isinstance(made, Subscription):
        return False
    call.worker.events.add(SubscriptionChanged.of(made, now))
    return True


def _require_device_quota(call: ServerCall) -> None:
    """Raises what a server tries again: a 429 is final to a registration."""
    most = int(call.server.max_devices or call.worker.settings.devices_per_server)
    if not call.worker.device_quota.allows_another(call.server.client_id, most):
        raise not_ready(f"at most {most} devices of one server", FULL_RETRY_S)
