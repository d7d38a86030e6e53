"""SMP servers of SimpleX, by way of their own protocol: agents choose them, so nothing of them is trusted.

tables ──rows──▶ buckets ──▶ servers ──▶ sessions ──▶ intake
  │                 ▲ ▲         │ └──▶ statuses ──▶ tables
  └──────news───────┘ │         └──▶ places: which of them have a connection
               leases, room
"""
