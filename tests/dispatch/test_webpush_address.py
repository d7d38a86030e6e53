import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from clarion import base64url
from clarion.providers.webpush_address import (
    MAX_ENDPOINT,
    PUSH_SERVICES,
    ServiceName,
    WebPushAddress,
    is_own,
    service_of,
)

CHROME = "https://fcm.googleapis.com/fcm/send/c1KrmpTuRm4:APA91bG_x-9"
ENDPOINTS = {
    CHROME: "fcm.googleapis.com",
    "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl-x_Z=": "updates.push.services.mozilla.com",
    "https://web.push.apple.com/QGuQyavXutnMH8qzDBkQ": "*.push.apple.com",
    "https://jmt17.google.com/fcm/send/c2FtcGxl": "jmt17.google.com",
    "https://wns2-par02p.notify.windows.com/w/?token=BQYAAAC%2fx%2b": "*.notify.windows.com",
}
# The RFC's own example: https://www.rfc-editor.org/rfc/rfc8291#section-5
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
FIELDS = {"endpoint": CHROME, "p256dh": P256DH, "auth": AUTH}

MALFORMED = [
    "http://fcm.googleapis.com/fcm/send/x",
    "HTTPS://fcm.googleapis.com/fcm/send/x",
    "https:fcm.googleapis.com/fcm/send/x",
    "https:///fcm.googleapis.com/fcm/send/x",
    "//fcm.googleapis.com/fcm/send/x",
    "ftp://fcm.googleapis.com/fcm/send/x",
    "file:///etc/passwd",
    "https://fcm.googleapis.com",
    "https://fcm.googleapis.com/",
    "https://FCM.googleapis.com/fcm/send/x",
    "https://fcm.googleapis.com./fcm/send/x",
    "https://.notify.windows.com/w/?token=x",
    "https://-.notify.windows.com/w/?token=x",
    "https://user@fcm.googleapis.com/fcm/send/x",
    "https://user:word@fcm.googleapis.com/fcm/send/x",
    "https://fcm.googleapis.com@evil.example/fcm/send/x",
    "https://fcm.googleapis.com:@evil.example/x",
    "https://evil.example\\@fcm.googleapis.com/x",
    "https://fcm.googleapis.com\\.evil.example/x",
    "https://evil.example?.notify.windows.com/x",
    "https://evil.example#.notify.windows.com/x",
    "https://fcm.googleapis.com/fcm/send/x#part",
    "https://fcm.googleapis.com:/fcm/send/x",
    "https://fcm.googleapis.com:0443/fcm/send/x",
    "https://fcm.googleapis.com:443/fcm/send/x",
    "https://fcm.googleapis.com:x/fcm/send/x",
    "https://fcm.googleapis.com/fcm/send/../../v1/projects",
    "https://fcm.googleapis.com/./x",
    "https://fcm.googleapis.com/fcm/..",
    "https://fcm.googleapis.com/fcm/%2e%2E/x",
    "https://fcm.googleapis.com/fcm/.%2e?x",
    "https://fcm.googleapis.com/fcm\\send\\x",
    "https://fcm.googleapis.com/fcm send",
    "https://fcm.googleapis.com/fcm\tsend",
    "https://fcm.googleapis.com/x\r\nhost: evil.example",
    "https://fcm.googleapis.com/x\n",
    " https://fcm.googleapis.com/x",
    "https://fcm.googleapis.com/x\0",
    "https://fcm.googleapis.com/%zz",
    "https://fcm.googleapis.com/%",
    "https://fcm.googleapis.com/ö",
    "https://fcm.googleapis。com/x",
    "https://fcm.googleapis.cöm/x",
    "https://[::1]/x",
    "https://[::ffff:169.254.169.254]/x",
    "https://[fcm.googleapis.com]/x",
    "https://fcm.googleapis.com/" + "x" * MAX_ENDPOINT,
    "",
]
ELSEWHERE = [
    "https://evil.example/fcm.googleapis.com/x",
    "https://fcm.googleapis.com.evil.example/x",
    "https://evilfcm.googleapis.com/x",
    "https://x.fcm.googleapis.com/x",
    "https://googleapis.com/x",
    "https://notify.windows.com/w/?token=x",
    "https://a.b.notify.windows.com/w/?token=x",
    "https://a.notify.windows.com.evil.example/x",
    "https://anotify.windows.com/x",
    "https://fcm.googleapis.com:8443/x",
    "https://a.notify.windows.com:8443/x",
    "https://localhost/x",
    "https://localhost:8443/x",
    "https://127.0.0.1/x",
    "https://2130706433/x",
    "https://0x7f000001/x",
    "https://0177.0.0.1/x",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/x",
]


def parse(**changes: Any) -> WebPushAddress:
    return WebPushAddress.parse(json.dumps(FIELDS | changes))


@pytest.mark.parametrize(("endpoint", "service"), ENDPOINTS.items())
def test_each_browsers_endpoint_belongs_to_its_push_service(endpoint: str, service: str) -> None:
    address = parse(endpoint=endpoint)

    assert service_of(address) == service
    assert endpoint.startswith(f"{address.origin}/")


@pytest.mark.parametrize("endpoint", MALFORMED)
def test_an_endpoint_that_no_browser_would_write_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^not a browser's subscription: endpoint$"):
        parse(endpoint=endpoint)


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_an_endpoint_elsewhere_belongs_to_no_push_service(endpoint: str) -> None:
    assert service_of(parse(endpoint=endpoint)) is None


@given(
    st.from_regex(r"\A[a-z0-9.:@/\\#?-]{0,20}\Z"), st.sampled_from(PUSH_SERVICES), st.sampled_from(["", ".", "@", "/"])
)
def test_nothing_before_or_after_the_name_of_a_push_service_leads_elsewhere(odd: str, service: str, glue: str) -> None:
    """What is accepted as a service's names it right after the scheme, and nothing else up to the path."""
    host = service.removeprefix("*.")
    for endpoint in (f"https://{odd}{glue}{host}/x", f"https://{host}{glue}{odd}/x"):
        try:
            address = parse(endpoint=endpoint)
        except ValueError:
            continue
        if found := service_of(address):
            named = endpoint.removeprefix("https://").split("/")[0]
            assert named == found or (found.startswith("*.") and named.partition(".")[2] == found[2:])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("p256dh", ""),
        ("p256dh", P256DH + "="),
        ("p256dh", P256DH[:-1]),
        ("p256dh", P256DH[:-1] + "5"),
        ("p256dh", P256DH.replace("_", "/").replace("-", "+")),
        ("p256dh", P256DH[:-4] + "AAAA"),
        ("p256dh", base64url.encode(bytes(65))),
        ("p256dh", base64url.encode(b"\x04" + bytes(64))),
        ("p256dh", base64url.encode(b"\x04" + b"\xff" * 64)),
        ("p256dh", 7),
        ("auth", ""),
        ("auth", AUTH + "=="),
        ("auth", AUTH[:-1] + "h"),
        ("auth", base64url.encode(bytes(15))),
        ("auth", base64url.encode(bytes(17))),
        ("auth", None),
    ],
)
def test_keys_of_another_form_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^not a browser's subscription: {field}$"):
        parse(**{field: value})


def test_a_point_in_a_form_of_the_same_length_is_refused() -> None:
    """Hybrid form: as long as the uncompressed one."""
    point = ec.generate_private_key(ec.SECP256R1()).public_key()
    encoded = point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    hybrid = bytes([6 + encoded[-1] % 2]) + encoded[1:]

    with pytest.raises(ValueError, match="p256dh"):
        parse(p256dh=base64url.encode(hybrid))


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "7", '"https://fcm.googleapis.com/x"', CHROME, "{", "[" * 5_000, '{"endpoint":' * 5_000),
        json.dumps(FIELDS | {"expirationTime": None}),
        json.dumps(FIELDS | {CHROME: 1}),
        json.dumps({name: FIELDS[name] for name in ("endpoint", "p256dh")}),
        json.dumps(FIELDS).replace("fcm", "\\ud800", 1),
    ],
)
def test_what_is_not_the_three_fields_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a browser's subscription"):
        WebPushAddress.parse(text)


def test_a_refusal_shows_nothing_of_the_address() -> None:
    secret = "sesame"
    for changes in ({"endpoint": f"http://{secret}"}, {"p256dh": secret}, {"auth": secret}, {secret: secret}):
        with pytest.raises(ValueError, match="not a browser's subscription") as caught:
            parse(**changes)
        assert secret not in str(caught.value)
        assert caught.value.__cause__ is None


def test_an_address_shows_nothing_of_itself() -> None:
    address = parse()

    for shown in (repr(address), str(address), f"{address}", repr([address])):
        assert "fcm" not in shown
        assert P256DH[:8] not in shown
        assert repr(address.auth) not in shown


def test_an_address_has_one_spelling() -> None:
    text = json.dumps(dict(reversed(FIELDS.items())), indent=2).replace("https", "\\u0068ttps")

    assert WebPushAddress.parse(text).text == parse().text
    assert parse().text == f'{{"endpoint":"{CHROME}","p256dh":"{P256DH}","auth":"{AUTH}"}}'


@given(
    path=st.from_regex(r"\A([A-Za-z0-9_:=~!$&'()*+,;@-]|%[0-9a-f]{2}){1,300}\Z"),
    auth=st.binary(min_size=16, max_size=16),
    scalar=st.integers(1, 2**128),
)
def test_what_was_stored_is_read_as_what_was_accepted(path: str, auth: bytes, scalar: int) -> None:
    point = ec.derive_private_key(scalar, ec.SECP256R1()).public_key()
    p256dh = point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    address = parse(
        endpoint=f"https://web.push.apple.com/-{path}",
        p256dh=base64url.encode(p256dh),
        auth=base64url.encode(auth),
    )

    assert (address.p256dh, address.auth) == (p256dh, auth)
    assert WebPushAddress.parse(address.text) == address
    assert WebPushAddress.parse(address.text).text == address.text


def test_a_deployment_may_have_a_push_service_of_its_own() -> None:
    services = (*PUSH_SERVICES, "localhost:8443", "push.example.com")

    assert service_of(parse(endpoint="https://localhost:8443/x"), services) == "localhost:8443"
    assert service_of(parse(endpoint="https://push.example.com/x"), services) == "push.example.com"
    assert service_of(parse(endpoint="https://localhost:8444/x"), services) is None
    assert service_of(parse(endpoint="https://localhost/x"), services) is None
    assert [is_own(service) for service in services] == [False] * len(PUSH_SERVICES) + [True, False]


@pytest.mark.parametrize("name", [*PUSH_SERVICES, "127.0.0.1:8443", "localhost:8443", "push.example.com"])
def test_a_host_with_or_without_a_port_names_a_push_service(name: str) -> None:
    assert TypeAdapter(ServiceName).validate_python(name) == name


@pytest.mark.parametrize(
    "name", ["", "*", "*.com", "*.*.example.com", "https://push.example.com", "Push.example.com", "push.example.com/x"]
)
def test_a_url_or_a_wildcard_for_a_whole_domain_names_no_push_service(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ServiceName).validate_python(name)
