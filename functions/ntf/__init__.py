"""SimpleX's NTF server: a task that agents reach by TLS, and that executes what they ask for.

connection ──tls──▶ session ──turn──▶ block ──▶ commands

Beside it stand the bounds of a task, of an address and of a connection.
"""
