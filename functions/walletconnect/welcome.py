"""The first notification of a new subscriber, if its project has set one."""

from clarion.networks.walletconnect.commands import DappNotification, NotifyAccount, NotifyCommand
from clarion.networks.walletconnect.notifications import WELCOME_NUMBER
from clarion.networks.walletconnect.projects import DappApp, ProjectState, find_project
from clarion.networks.walletconnect.subscriptions import NotifySubscription


def welcome_for(app: DappApp, row: NotifySubscription, at_ms: int) -> NotifyCommand | None:
    """None unless the project is active and has a welcome of a type that the subscriber takes. `at_ms`: UNIX ms."""
    project = find_project(app.project_id)
    if project is None or project.state != ProjectState.ACTIVE:
        return None
    welcome = project.welcome
    if not welcome or not welcome["enabled"] or welcome["type"] not in row.types:
        return None
    content = {name: welcome[name] for name in ("type", "title", "body", "url")}
    notification = DappNotification(id=f"welcome {row.subscription_id}", **content)
    account = NotifyAccount(account=row.account_spelled, subscription_id=row.subscription_id, number=WELCOME_NUMBER)
    return NotifyCommand(
        project_id=project.project_id, app=app.app, notification=notification, accounts=(account,), issued_at=at_ms
    )
