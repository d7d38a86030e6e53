"""What anybody may ask: for the Notify server's `did.json`, and where the link in a notification leads."""

from http import HTTPStatus
from urllib.parse import quote

from api.networks.walletconnect.call import DappAnswer, DappCall
from api.networks.walletconnect.errors import not_found
from clarion.networks.walletconnect.buckets import LINK
from clarion.networks.walletconnect.did_document import did_document
from clarion.networks.walletconnect.notifications import find_linked

MAX_AGE = 3600
"""Of `did.json`, in seconds."""
_OF_URLS = "%:/?#[]@!$&'()*+,;="
"""What stands for itself in a URL, beside letters and digits: https://www.rfc-editor.org/rfc/rfc3986#section-2.2"""


def did_json(call: DappCall) -> DappAnswer:
    """By which wallets find the server. Pages of any origin may read it."""
    keys = call.worker.keys.get()
    subscribe, authentication = (key.public_key().public_bytes_raw() for key in (keys.subscribe, keys.authentication))
    document = did_document(call.worker.settings.options.domain, subscribe, authentication)
    return DappAnswer.of(document, Access_Control_Allow_Origin="*", Cache_Control=f"public, max-age={MAX_AGE}")


def follow_link(call: DappCall) -> DappAnswer:
    """What leads nowhere takes no token, so that nobody fills the table of buckets."""
    link = call.parameters["id"]
    url = _target(link, call.now // 1000)
    if url is None:
        raise not_found("that link was not found")
    call.take_token(LINK, link)
    return DappAnswer(HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": quote(url, safe=_OF_URLS)})


def _target(link: str, now: int) -> str | None:
    found = find_linked(link)
    return found.url if found is not None and found.ttl > now else None
