"""XMTP's part of the API: the service `notifications.v1.Notifications` of its notification servers.

    API Gateway ──▶ handler ──▶ protocols, codecs: bytes to a message ──▶ service: five calls ──▶ the common functions
                                what can't be read, or fails: codes

It runs in a function of its own, the network's router.
"""
