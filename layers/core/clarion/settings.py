"""Settings come from the environment, once, typed; what is missing, unknown or of the wrong type stops the start."""

import os
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

PREFIX = "CLARION_"

Origin = Annotated[str, AfterValidator(lambda url: url.rstrip("/"))]
"""A URL that paths are appended to."""


class Settings(BaseModel):
    """Base of every room's settings: field `queue_url` is read from `CLARION_QUEUE_URL`.

    `stage` names the deployment; by it, the metrics of several in one account are told apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    stage: str = "local"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raise `pydantic.ValidationError`, naming each variable at fault but no value."""
        found = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
        return cls.model_validate({name.removeprefix(PREFIX).lower(): value for name, value in found.items()})
