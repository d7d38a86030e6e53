"""`clarion simplex …`: the NTF server's identity, and the address that agents are given."""
