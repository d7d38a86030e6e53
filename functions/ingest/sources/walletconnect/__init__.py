"""Relays of WalletConnect, by way of their WebSocket."""
