"""Push queues to APNs and FCM: build the payload, send, turn the answer into an outcome."""
