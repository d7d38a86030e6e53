"""WalletConnect's part of the API: what dapps ask of their Notify server, and what wallets read of it.

    API Gateway ──▶ handler ──▶ router ──▶ authentication ──▶ notifying, subscribers, apps, welcome, reading
                                   ├─ without it: links, did.json
                                   └─ what is refused, or fails: errors

It runs in a function of its own, the network's router.
"""
