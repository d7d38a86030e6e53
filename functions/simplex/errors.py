"""Why a command is to come again. Their texts are ours, and hold nothing of what was received.

RetryError ─┬─ TooEarlyError      what it follows from has not been written yet
            ├─ ContendedError     others kept changing what it changes
            └─ OutOfTimeError     it has begun, and goes on when it comes again, which may be at once
"""


class RetryError(Exception):
    pass


class TooEarlyError(RetryError):
    pass


class ContendedError(RetryError):
    pass


class OutOfTimeError(RetryError):
    pass
