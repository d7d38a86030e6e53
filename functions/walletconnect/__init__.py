"""WalletConnect's own worker: it serves what wallets ask for by the relay, and sends them what dapps notify."""
