"""`subscribe-topic`: a dapp claims its domain, and gets the keys that its `did.json` has to publish."""

from http import HTTPStatus
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, Field, TypeAdapter

from api.networks.walletconnect.arguments import DappArguments
from api.networks.walletconnect.call import DappAnswer, ProjectCall
from api.networks.walletconnect.errors import DappError, domain_taken
from api.problems import contended
from clarion.networks.walletconnect.buckets import SUBSCRIBE_TOPIC
from clarion.networks.walletconnect.did import domain_did, domain_of
from clarion.networks.walletconnect.domains import claim, public_keys


def _domain(text: str) -> str:
    return domain_of(domain_did(text))


class SubscribeTopicArguments(DappArguments):
    app_domain: Annotated[str, AfterValidator(_domain)] = Field(
        validation_alias=AliasChoices("appDomain", "app_domain")
    )


_ARGUMENTS = TypeAdapter(SubscribeTopicArguments)


def subscribe_topic(call: ProjectCall) -> DappAnswer:
    call.take_project_token(SUBSCRIBE_TOPIC)
    domain = call.body(_ARGUMENTS).app_domain
    if call.project.app not in {None, domain}:
        raise DappError(HTTPStatus.CONFLICT, "the project has another domain: its operator can give it this one")
    app = claim(call.worker.connection, call.project, domain, call.now)
    if app is None:
        raise contended()
    if app.project_id != call.project.project_id:
        raise domain_taken()
    keys = public_keys(app)
    return DappAnswer.of({"authenticationKey": keys.authentication.hex(), "subscribeKey": keys.subscribe.hex()})
