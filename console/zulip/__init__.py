"""`clarion zulip …`: the servers that this bouncer serves, their realms, and the keys that their devices seal for."""
