"""The most that anybody may have of us, each with its reason. Agents meet the counts as `ERR QUOTA`."""

QUEUES_OF_TOKEN = 1_000
"""An app subscribes to one for each of its conversations."""
SERVERS_OF_TOKEN = 50
"""An agent's queues lie on servers of its own choice, of which it has some twenty. Each server is a connection of ours."""
CODES_OF_DEVICE_AND_PEER = 12
"""In an hour, from one network address to one device token: anybody may name it, and each code wakes its app."""
CODES_OF_DEVICE = 120
"""In an hour, whoever asks. Ten addresses use that up, so that one alone can't keep the device's owner from a code."""
UNVERIFIED_SECONDS = 7 * 86_400
"""As long is a token kept that nobody has verified. The push with its code may wait at Apple for a phone that is off."""
VERIFIED_SECONDS = 900
"""So long after a token was replaced nearly all that wait for a code have it, and the worker finds nothing to do."""
NEWEST_SECONDS = UNVERIFIED_SECONDS
"""As long are a token's newest messages kept after the last one: a new token may wait for its code, and they with it."""
INVALID_SECONDS = 30 * 86_400
"""As long is a token kept, with its queues, that Apple says is dead: its agent may register it again, or learn why."""
ENDED_SECONDS = 86_400
"""As long is a subscription kept after its end, for every source to see that it has ended."""
WAKE_UP_MINUTES = range(20, 1_441)
"""How often an agent may have itself woken; a longer period is taken for the longest."""
