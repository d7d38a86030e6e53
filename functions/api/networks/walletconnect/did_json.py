"""The Notify server's `did.json`, by which wallets find it. Pages of any origin may read it."""

from api.networks.walletconnect.call import DappAnswer, DappCall
from clarion.networks.walletconnect.did_document import did_document

MAX_AGE = 3600
"""Seconds."""


def did_json(call: DappCall) -> DappAnswer:
    keys = call.worker.keys.get()
    subscribe, authentication = (key.public_key().public_bytes_raw() for key in (keys.subscribe, keys.authentication))
    document = did_document(call.worker.settings.options.domain, subscribe, authentication)
    return DappAnswer.of(document, Access_Control_Allow_Origin="*", Cache_Control=f"public, max-age={MAX_AGE}")
