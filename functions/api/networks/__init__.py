"""What each network adds to the API: routes of its own, and how its rules read and show there.

The rest of the API knows no network. It imports those that the deployment enables, and those alone. A network whose
callers are no clients of the API has a function of its own for their routes (`clarion.networks.needs`).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api.problems import ProblemKind
from clarion.networks import STATEMENTS, WALLETCONNECT

PACKAGES = {
    STATEMENTS: "api.networks.statements",
    WALLETCONNECT: "api.networks.walletconnect.devices",
}
"""By a network's name, the package whose `ROUTES` serve it; a network without routes needs none."""


class NetworkRoutes(NamedTuple):
    """`invalid` says, by path, what a body that breaks a rule is there, if not `ProblemKind.INVALID`."""

    routers: Sequence[APIGatewayHttpRouter]
    invalid: Mapping[str, ProblemKind] = MappingProxyType({})


@cache
def routes_of(network: str) -> NetworkRoutes:
    if network not in PACKAGES:
        return NetworkRoutes(())
    found: NetworkRoutes = import_module(PACKAGES[network]).ROUTES
    return found
