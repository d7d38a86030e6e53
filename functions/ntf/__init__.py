"""SimpleX's NTF server: a task that agents reach by TLS, and that executes what they ask for.

connection ──tls──▶ session ──▶ executor ──▶ commands
▲                  ▲
└── server ── bounds, peers
"""
