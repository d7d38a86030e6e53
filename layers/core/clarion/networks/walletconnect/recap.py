"""ReCaps: what a signed text allows, for machines to read, and the sentence that says it to people.

    urn:recap:<base64url of {"att":{"https://notify.walletconnect.com":{"manage/app.example.com-notifications":[{}]}}}>

https://eips.ethereum.org/EIPS/eip-5573
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from clarion import base64url

PREFIX = "urn:recap:"
_SENTENCE = "I further authorize the stated URI to perform the following actions on my behalf:"

type ResourceUri = Annotated[str, Field(pattern=r"^.+:.*$")]
type Ability = Annotated[str, Field(pattern=r"^[a-zA-Z0-9.*_+-]+/[a-zA-Z0-9.*_+-]+$")]
"""A namespace and a name."""


class Recap(BaseModel):
    """`att` has the abilities by the resource that they are for, each with its restrictions."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)

    att: dict[ResourceUri, dict[Ability, list[dict[str, Any]]]]


def parse(uri: str) -> Recap:
    """Raises `ValueError`."""
    return Recap.model_validate_json(base64url.decode(uri.removeprefix(PREFIX)))


def statement_of(recap: Recap) -> str:
    """The end of a statement with such a ReCap."""
    grants = (f" ({number}) {grant}." for number, grant in enumerate(_grants(recap), 1))
    return _SENTENCE + "".join(grants)


def _grants(recap: Recap) -> Iterator[str]:
    """One for each resource and namespace."""
    for resource, abilities in sorted(recap.att.items()):
        named = sorted(ability.split("/") for ability in abilities)
        for namespace, group in groupby(named, key=lambda pair: pair[0]):
            names = ", ".join(f"'{name}'" for _, name in group)
            yield f"'{namespace}': {names} for '{resource}'"
