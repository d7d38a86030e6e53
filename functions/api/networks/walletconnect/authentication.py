"""Which project calls: the one in the path, if the request bears its secret."""

from http import HTTPStatus

from api.networks.walletconnect.call import DappCall, ProjectCall
from api.networks.walletconnect.errors import DappError
from clarion.networks.walletconnect.projects import Project, ProjectState, has_secret


def authenticated(call: DappCall) -> ProjectCall:
    """Raises `DappError` unless it is an active project's."""
    scheme, _, secret = call.event["headers"].get("authorization", "").partition(" ")

    def serves(project: Project) -> bool:
        return has_secret(project, secret) and project.state == ProjectState.ACTIVE

    project = call.worker.projects.get(call.parameters["project"], serves)
    if not has_secret(project, secret) or project is None or scheme.lower() != "bearer":
        raise _unauthorized("no project with this id and this secret")
    if project.state != ProjectState.ACTIVE:
        raise _unauthorized("the project is deactivated")
    return ProjectCall(call.worker, call.event, call.parameters, project)


def _unauthorized(reason: str) -> DappError:
    return DappError(HTTPStatus.UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})
