"""The body by which a client registers a token, whatever its network, and its schema."""

from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from api.bodies import RequestBody
from api.shapes import CHANNEL_NAMES, AppName, DeviceKey, WakeEveryMinutes
from clarion.addresses import APNS_TOKEN, FCM_TOKEN, canonical
from clarion.channels import Channel
from clarion.decisions import Environment
from clarion.rulesets import Owner
from clarion.subscriptions import Registration


def registration_schema(schema: dict[str, Any]) -> None:
    """What a token looks like, and whether it wakes, depends on its kind, whose field has two spellings.

    The kinds are the channels that the body's field takes.
    """
    fields, title = schema["properties"], schema["title"]
    served = fields["notificationType"]["enum"]
    optional = {name: fields[name] for name in ("app", "environment", "device_key")}
    waking = {"wake_every_minutes": fields["wake_every_minutes"]}
    kinds: tuple[tuple[list[str], dict[str, str], dict[str, Any]], ...] = (
        ([Channel.APNS.value], {"pattern": f"^{APNS_TOKEN}$"}, waking),
        ([Channel.VOIP.value], {"pattern": f"^{APNS_TOKEN}$"}, {}),
        ([Channel.FCM.value], {"pattern": f"^{FCM_TOKEN}$"}, waking),
        (
            [Channel.WEBPUSH.value],
            {"format": "push-subscription", "description": "a browser's PushSubscription as JSON text"},
            {},
        ),
    )
    shapes = [
        {
            "type": "object",
            "properties": {
                name: {"type": "string", "enum": kind},
                "token": fields["token"] | token,
                **optional,
                **more,
            },
            "required": [name, "token"],
            "additionalProperties": False,
        }
        for name in ("notificationType", "platform")
        for kind, token, more in kinds
        if set(kind) <= set(served)
    ]
    example = {"notificationType": Channel.APNS.value, "token": "0a1b" * 16}
    schema.clear()
    schema.update(title=title, anyOf=shapes, examples=[example])


class RegistrationBody(RequestBody):
    """Each network's own says by the type of `notify_type` which channels it takes."""

    model_config = ConfigDict(json_schema_extra=registration_schema)

    notify_type: Channel = Field(validation_alias=CHANNEL_NAMES)
    token: str = Field(repr=False, description="hex for apns and voip, as Firebase gave it for fcm, JSON for webpush")
    app: AppName | None = Field(default=None, description="the deployment's first app where absent")
    environment: Environment | None = Field(
        default=None,
        description="where Apple made the token: sandbox for builds of developers; no effect on fcm and webpush",
    )
    device_key: DeviceKey | None = None
    wake_every_minutes: WakeEveryMinutes | None = None

    @field_validator("token")
    @classmethod
    def _of_its_kind(cls, token: str, info: ValidationInfo) -> str:
        """Hex becomes lower case without `0x`; a token of Firebase stays as it is; a browser's JSON has one spelling."""
        notify_type = info.data.get("notify_type")
        return canonical(notify_type, token) if notify_type else token

    def of(self, owner: Owner) -> Registration:
        """What the owner asks for."""
        return Registration(
            *owner,
            self.notify_type,
            self.token,
            self.app,
            self.environment,
            device_key=self.device_key,
            wake_every_minutes=self.wake_every_minutes,
        )
