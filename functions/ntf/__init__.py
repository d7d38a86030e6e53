"""SimpleX's NTF server: a task that agents reach by TLS, and that executes what they ask for.

connection ──tls──▶ session ──turn──▶ executor ──▶ commands
▲                  ▲
└─ server ─────────┴── bounds, of the task, of an address, of a connection
"""
