"""What the function reads from its environment."""

from clarion.settings import Settings


class CleanupSettings(Settings):
    table_prefix: str
