"""The apps at each provider that a deployment pushes by, as its functions have them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import boto3

from clarion.channels import CHANNELS, Channel, Provider
from clarion.providers.apps import AppSettings
from clarion.settings import PREFIX
from console.deployment import Deployment


@dataclass(frozen=True)
class ProviderApps:
    """The apps at one provider, by the settings that dispatch has for them."""

    provider: Provider
    settings: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, provider: Provider, live: str) -> Self:
        """As the version has them that `live`, an alias, leads to: `$LATEST` is what somebody may be trying out."""
        configuration = boto3.client("lambda").get_function_configuration(FunctionName=live)
        variables = configuration.get("Environment", {}).get("Variables", {})
        return cls(provider, {name.removeprefix(PREFIX).lower(): value for name, value in variables.items()})

    @property
    def apps(self) -> list[AppSettings]:
        """The first is spelled out; see `DispatchSettings`."""
        first = AppSettings(
            name=self.settings["app_name"],
            secret_id=self.settings["provider_secret_id"],
            bundle_id=self.settings["bundle_id"],
            sandbox_secret_id=self.settings.get("sandbox_secret_id"),
        )
        return [first, *map(AppSettings.model_validate, json.loads(self.settings.get("apps", "[]")))]

    @property
    def secret_ids(self) -> list[str]:
        return [each for app in self.apps for each in (app.secret_id, app.sandbox_secret_id) if each]


def deployed(here: Deployment) -> Iterator[ProviderApps]:
    """Two channels may share a provider."""
    aliases = {CHANNELS[Channel(each.name)].provider: each.live for each in here.queues if each.name in CHANNELS}
    return (ProviderApps.of(*each) for each in aliases.items())
