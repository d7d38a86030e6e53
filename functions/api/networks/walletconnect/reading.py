"""`mark-all-as-read`: whatever the dapp has notified up to now counts as read by all of its subscribers."""

from api.networks.walletconnect.call import DappAnswer, ProjectCall
from clarion.networks.walletconnect.buckets import MARK_ALL_AS_READ
from clarion.networks.walletconnect.reading import mark_read_through


def mark_all_as_read(call: ProjectCall) -> DappAnswer:
    call.take_project_token(MARK_ALL_AS_READ)
    mark_read_through(call.own_app, call.now)
    return DappAnswer()
