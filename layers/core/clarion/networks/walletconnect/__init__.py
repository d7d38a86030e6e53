"""WalletConnect Notify: what wallets, dapps and the Notify server sign and seal for each other.

The pipeline reads rules and envelopes, in an environment without the libraries that sign and seal: so what needs these is
imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clarion.networks.walletconnect.identity import CacaoFlaw, Identity, InvalidCacao, check_cacao
    from clarion.networks.walletconnect.jwt import InvalidJwt, JwtFlaw, issue, profile_of, verify

__all__ = [
    "CacaoFlaw",
    "Identity",
    "InvalidCacao",
    "InvalidJwt",
    "JwtFlaw",
    "check_cacao",
    "issue",
    "profile_of",
    "verify",
]
_OF_IDENTITY = {"CacaoFlaw", "Identity", "InvalidCacao", "check_cacao"}


def __getattr__(name: str) -> object:
    """https://peps.python.org/pep-0562/"""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "identity" if name in _OF_IDENTITY else "jwt"
    return getattr(import_module(f"{__name__}.{home}"), name)
