"""`clarion walletconnect project type` and `remove-type`: of what a project notifies."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from uuid import UUID, uuid4

import click

from clarion.networks.walletconnect.projects import NotificationType, Project
from clarion.tables import update_if
from console.deployment import Deployment
from console.faults import Trouble
from console.output import Report, confirm
from console.walletconnect.projects import found_project


class TypeChange(Report):
    stage: str
    project_id: str
    type_id: UUID
    there: bool

    def __rich__(self) -> str:
        return f"Type {self.type_id} {'is' if self.there else 'is no more'} one of project {self.project_id}."


@dataclass(frozen=True)
class TypeTexts:
    """What wallets show of a type; None leaves it as it is."""

    name: str | None = None
    description: str | None = None
    image_url: str | None = None


def set_type(here: Deployment, project_id: str, type_id: UUID | None, texts: TypeTexts) -> TypeChange:
    """Add a type, under a new id if none is given, or change what is given of one."""
    row, chosen = found_project(project_id), str(type_id or uuid4())
    known = row.types.get(chosen, NotificationType(name="", description="", image_url=""))
    made = known | {name: text for name, text in asdict(texts).items() if text is not None}
    if not made["name"]:
        raise click.UsageError("a new type needs a --name")
    return _change_types(here, row, {**row.types, chosen: made}, UUID(chosen))


def remove_type(here: Deployment, project_id: str, type_id: UUID, *, yes: bool) -> TypeChange:
    row = found_project(project_id)
    if str(type_id) not in row.types:
        raise click.UsageError(f"project {project_id} has no type {type_id}")
    confirm(f"Remove {row.types[str(type_id)]['name']} from {row.name} ({project_id}) of {here}?", yes=yes)
    left = {known: each for known, each in row.types.items() if known != str(type_id)}
    return _change_types(here, row, left, type_id)


def _change_types(here: Deployment, row: Project, types: Mapping[str, NotificationType], changed: UUID) -> TypeChange:
    if not update_if(row, Project.types.set(types), condition=Project.types == row.types):
        raise Trouble(f"the types of {row.project_id} were changed by somebody else meanwhile: try again")
    return TypeChange(stage=here.stage, project_id=row.project_id, type_id=changed, there=str(changed) in types)
