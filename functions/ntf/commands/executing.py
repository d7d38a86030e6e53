"""From a request to the content of its reply."""

from clarion.networks.simplex.ntf import NtfRequest


class NtfCommands:
    """Thread-safe. What it is made of, and how, is said in `ntf.commands.wiring`."""

    def execute(self, request: NtfRequest) -> bytes:
        """The content of the reply. Raises nothing: what AWS doesn't do now is `ERR STORE`, a bug `ERR INTERNAL`."""
        raise NotImplementedError
