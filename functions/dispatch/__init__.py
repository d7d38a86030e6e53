"""Push queues to APNs and FCM: read the token now, send, and turn the provider's answer into an outcome."""
