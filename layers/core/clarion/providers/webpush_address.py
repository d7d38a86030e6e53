"""Where a browser is reached: the subscription that its push service gave it, and which services we send to.

Clients choose their addresses, so one could have us send requests anywhere: only a host on the list of push services is
sent to, and only at a public IP address (`clarion.providers.public_addresses`). https://www.w3.org/TR/push-api/
"""

import json
import re
from collections.abc import Callable, Collection
from typing import Annotated, Self

from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from clarion import base64url

MAX_ENDPOINT = 2048
"""Characters. Those of Windows are the longest, with some 700."""
P256DH_BYTES = 65
AUTH_BYTES = 16

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_AUTHORITY = rf"{_LABEL}(?:\.{_LABEL})*(?::[1-9][0-9]{{0,4}})?"
_CHARACTER = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
# No user, no fragment, no upper-case host and no default port; no segment `.` or `..`, which libcurl would remove from
# the path.
_ENDPOINT = re.compile(
    rf"https://(?P<authority>{_AUTHORITY})(?<!:443)/"
    rf"(?!(?:[^?]*/)?(?:\.|%2[Ee]){{1,2}}(?:[/?]|\Z)){_CHARACTER}+(?:\?{_CHARACTER}+)?"
)

ServiceName = Annotated[str, Field(pattern=rf"^(\*\.{_LABEL}\.)?{_AUTHORITY}$")]
"""A host; `*.` before it stands for one label, as in a certificate. One with a port is the deployment's own."""

PUSH_SERVICES: tuple[ServiceName, ...] = (
    "fcm.googleapis.com",
    "updates.push.services.mozilla.com",
    "jmt17.google.com",
    "*.push.apple.com",
    "*.notify.windows.com",
)
"""Those of Chrome, Firefox, Chromium as Linux distributions build it, Safari and Edge.

Apple asks to allow any subdomain: https://developer.apple.com/videos/play/wwdc2022/10098/
"""


def _endpoint(text: str) -> str:
    if not _ENDPOINT.fullmatch(text):
        raise ValueError("not an https URL as a browser writes it")
    return text


def _base64url_of(size: int) -> Callable[[object], bytes]:
    form = re.compile(rf"[A-Za-z0-9_-]{{{-(-size * 8 // 6)}}}")

    def decode(value: object) -> bytes:
        if isinstance(value, str) and form.fullmatch(value):
            decoded = base64url.decode(value)
            # The last character has bits to spare: only one spelling of them counts.
            if base64url.encode(decoded) == value:
                return decoded
        raise ValueError(f"not {size} bytes in base64url without padding")

    return decode


def _point(encoded: bytes) -> bytes:
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), encoded)
    return encoded


class WebPushAddress(BaseModel):
    """`p256dh` is the browser's public key, an uncompressed point of P-256; `auth` is a secret of 16 bytes.

    Whoever knows the endpoint can name the browser, and with a key of ours send to it: nothing here is ever shown.
    What was once accepted must stay readable, so the list of push services, which may change, is no part of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    endpoint: Annotated[str, AfterValidator(_endpoint)] = Field(max_length=MAX_ENDPOINT, repr=False)
    p256dh: Annotated[bytes, AfterValidator(_point), BeforeValidator(_base64url_of(P256DH_BYTES))] = Field(repr=False)
    auth: Annotated[bytes, BeforeValidator(_base64url_of(AUTH_BYTES))] = Field(repr=False)

    @model_validator(mode="before")
    @classmethod
    def _as_browsers_write_it(cls, given: object) -> object:
        """A browser's own JSON has the keys in an object of their own, and a time of expiry that none sets."""
        match given:
            case {"endpoint": endpoint, "keys": {"p256dh": p256dh, "auth": auth}}:
                return {"endpoint": endpoint, "p256dh": p256dh, "auth": auth}
        return given

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of the JSON object of the three fields, in any order, or as `PushSubscription.toJSON` gives it.

        Raise `ValueError`, which names the fields at fault and shows nothing of them.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            faulty = {part for fault in error.errors(include_input=False) for part in fault["loc"]}
            named = ", ".join(name for name in cls.model_fields if name in faulty)
            raise ValueError(f"not a browser's subscription: {named or 'an object of three fields'}") from None

    @property
    def text(self) -> str:
        """The one spelling of this address: it is stored, and hashed, where other channels have a token."""
        keys = {"p256dh": base64url.encode(self.p256dh), "auth": base64url.encode(self.auth)}
        return json.dumps({"endpoint": self.endpoint, **keys}, separators=(",", ":"))

    @property
    def origin(self) -> str:
        """https://www.rfc-editor.org/rfc/rfc6454#section-6.2"""
        return f"https://{self.authority}"

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the default one."""
        return self.endpoint.split("/", 3)[2]


def service_of(address: WebPushAddress, services: Collection[ServiceName] = PUSH_SERVICES) -> ServiceName | None:
    """The push service that the address belongs to, by its name on the list; None: nothing may be sent there.

    A port must be on the list as well, so without one there only the default port is sent to.
    """
    host = address.authority
    wildcard = f"*.{host.partition('.')[2]}"
    return next((name for name in (host, wildcard) if name in services), None)


def is_own(service: ServiceName) -> bool:
    """Whether the deployment runs it, as it does a stand-in: then it may have a private IP address."""
    return ":" in service
