"""The secrets that the operator fills in: whether they sign."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
from pydantic import BaseModel

from clarion.channels import Provider
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.zulip.keys import BouncerKeys
from clarion.providers.credentials import ApnsKey, GoogleAccount, apns_token, google_assertion
from clarion.providers.vapid import VapidKey, vapid_token
from clarion.providers.webhook import WebhookSecret, signature
from clarion.secrets import Secret, SecretError, SharedSecret
from console.deployment import Deployment
from console.doctor import apps
from console.doctor.names import secret_name
from console.doctor.report import Check, with_refusal

FILL_IN = "fill it in: docs/operations.md#secrets"
FIRST_KEY = "clarion zulip rotate-key --first"
CREATE_KEYS = "clarion walletconnect create-keys"

type Model = type[BaseModel]
type Sign = Callable[[Any], object]

SIGNED: Mapping[Provider, tuple[Model, Sign]] = {
    Provider.APNS: (ApnsKey, lambda key: apns_token(key, 0)),
    Provider.FCM: (GoogleAccount, lambda account: google_assertion(account, 0)),
    Provider.WEBPUSH: (VapidKey, lambda key: vapid_token(key, 0, "https://push.example.org")),
    Provider.WEBHOOK: (WebhookSecret, lambda secret: signature(secret.signing_key, "any", 0, b"")),
}

MADE: Mapping[str, tuple[Model, str]] = {
    "ZulipBouncerSecretId": (BouncerKeys, FIRST_KEY),
    "WalletconnectServerSecretId": (ServerKeys, CREATE_KEYS),
}
"""Keys that a command of ours makes, by the output that names their secret."""


def check_secrets(here: Deployment) -> Iterator[Check]:
    for each in apps.deployed(here):
        for secret_id in each.secret_ids:
            yield from _check_secret(secret_id, *SIGNED[each.provider])
    if jwt := here.outputs.get("JwtSecretId"):
        yield from _check_secret(jwt, SharedSecret, str)
    for output, (model, command) in MADE.items():
        if made := here.outputs.get(output):
            yield from _check_keys(made, model, command)


def _check_keys(secret_id: str, model: Model, command: str) -> Iterator[Check]:
    name = f"secret {secret_name(secret_id)}"
    return with_refusal(name, lambda: [_check_made(name, secret_id, model, command)])


def _check_made(name: str, secret_id: str, model: Model, command: str) -> Check:
    try:
        Secret(boto3.client("secretsmanager"), secret_id, model).get()
    except SecretError:
        return Check(name=name, found="it holds no keys", todo=command)
    return Check(name=name, found="it holds keys")


def _check_secret(secret_id: str, model: Model, sign: Sign) -> Iterator[Check]:
    name = f"secret {secret_name(secret_id)}"
    return with_refusal(name, lambda: [_check_signing(name, secret_id, model, sign)])


def _check_signing(name: str, secret_id: str, model: Model, sign: Sign) -> Check:
    try:
        sign(Secret(boto3.client("secretsmanager"), secret_id, model).get())
    except SecretError as error:
        return Check(name=name, found=str(error).removeprefix(secret_id).strip(), todo=FILL_IN)
    return Check(name=name, found="filled in, and good to sign with")
