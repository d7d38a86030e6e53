"""WalletConnect Notify: what wallets, dapps and the Notify server sign and seal for each other. All here is pure."""

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
