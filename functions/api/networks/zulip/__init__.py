"""Zulip's part of the API: what its servers ask of their push bouncer, and `expired`, which Zulip's proposal adds.

    API Gateway ──▶ handler ──▶ router ──▶ authentication ──▶ registering, notifying, expired, servers
                                   └─ what is refused, or fails: errors

It runs in a function of its own, the network's router.
"""
