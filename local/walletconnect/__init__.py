"""What is around a Notify server of WalletConnect: a relay, a key server, dapps, the explorer, wallets, and a story of them."""
