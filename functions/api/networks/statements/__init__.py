"""The statement store's part of the API: subscriptions with rules of senders and topics, and direct push."""

from api.networks import NetworkRoutes
from api.networks.statements import notify, routes
from api.problems import ProblemKind

ROUTES = NetworkRoutes((routes.router, notify.router), {notify.PATH: ProblemKind.BAD_REQUEST})
