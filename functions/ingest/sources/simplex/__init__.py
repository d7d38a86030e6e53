"""SMP servers of SimpleX, by way of their own protocol: agents choose them, so nothing of them is trusted.

tables ──▶ buckets ──▶ servers ──▶ sessions ──▶ intake
              │           └──▶ statuses ──▶ tables
           part leases
"""
