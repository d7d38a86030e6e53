"""SimpleX: the wire formats of its NTF server, and of a client of its SMP servers that only gets notifications.

    SMP server ──NMSG──▶ NTF server ──push──▶ device
                   ▲            ▲
                   └─NSUB       └─TNEW, TVFY, SNEW … ── the device's agent

All here is pure: bytes in, values or `MalformedSimplex` out.
"""
