"""Push queues to APNs, FCM and Web Push: read the token now, send, and turn the provider's answer into an outcome."""
