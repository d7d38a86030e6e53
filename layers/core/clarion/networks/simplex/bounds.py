"""The most that anybody may have of us, each with its reason. An agent beyond a count is answered `ERR QUOTA`."""

QUEUES_OF_TOKEN = 1_000
"""An app subscribes to one for each of its conversations."""
SERVERS_OF_TOKEN = 50
"""An agent's queues lie on servers of its own choice, of which it has some twenty. Each server is a connection of ours."""
SEARCH_SECONDS = 3_600
"""Between two searches for ended queues of a token that has as many as it may: each search reads all of its rows."""
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
"""How long a token that Apple says is dead is kept, with its queues: its agent may register it again, or learn why."""
ENDED_SECONDS = 86_400
"""How long a subscription is kept after its end, for every source to see that it has ended."""
WAKE_UP_MINUTES = range(20, 1_441)
"""The periods in which an agent may have itself woken; a longer one is taken for the longest."""
