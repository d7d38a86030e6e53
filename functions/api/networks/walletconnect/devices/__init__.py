"""Wallets' devices: subscriptions whose rules are topics of the relay, as clients of Clarion's own API register them."""

from api.networks import NetworkRoutes
from api.networks.walletconnect.devices import routes

ROUTES = NetworkRoutes((routes.router,))
