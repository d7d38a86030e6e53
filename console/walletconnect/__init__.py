"""`clarion walletconnect …`: the projects that may notify, and the Notify server's own keys."""
