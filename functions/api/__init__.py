"""The HTTP API and its authorizer: clients keep their subscriptions and rules here."""
