"""The notification that each new subscriber gets first."""

from uuid import UUID

from pydantic import TypeAdapter

from api.networks.walletconnect.arguments import DappArguments
from api.networks.walletconnect.call import DappAnswer, ProjectCall
from api.networks.walletconnect.notifications import Body, Title, Url
from clarion.networks.walletconnect.buckets import WELCOME
from clarion.networks.walletconnect.projects import Project, Welcome


class WelcomeArguments(DappArguments):
    enabled: bool
    type: UUID
    title: Title
    body: Body
    url: Url | None = None


_ARGUMENTS = TypeAdapter(WelcomeArguments)


def show_welcome(call: ProjectCall) -> DappAnswer:
    """Null if there is none."""
    call.take_project_token(WELCOME)
    return DappAnswer.of(call.project.welcome)


def set_welcome(call: ProjectCall) -> DappAnswer:
    call.take_project_token(WELCOME)
    arguments = call.body(_ARGUMENTS)
    welcome = Welcome(
        enabled=arguments.enabled,
        type=str(arguments.type),
        title=arguments.title,
        body=arguments.body,
        url=arguments.url,
    )
    call.project.update([Project.welcome.set(welcome)])
    return DappAnswer()
