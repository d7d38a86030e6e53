"""The link in a notification, which leads to where its dapp said."""

from http import HTTPStatus
from urllib.parse import quote

from api.networks.walletconnect.call import DappAnswer, DappCall
from api.networks.walletconnect.errors import not_found
from clarion.networks.walletconnect.buckets import LINK
from clarion.networks.walletconnect.notifications import find_linked

_OF_URLS = "%:/?#[]@!$&'()*+,;="
"""What stands for itself in a URL, beside letters and digits: https://www.rfc-editor.org/rfc/rfc3986#section-2.2"""


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
