"""`erase CLIENT`: remove what the lake has of a client, by commits that leave out what holds it.

    journal ──▶ of each commit: raw files without it ──▶ data files without it ──▶ commit ──▶ old files removed ──▶ done

The journal names the client's subscriptions, by which alone some events are known to be its own, and the hours that a
run has begun with. It is written first and removed last, so that a run which was stopped is finished by the next one.

A commit that was begun with the old raw files loses its race against the erasure's, and begins its hour anew with the
new ones. So each hour of which a raw file held the client is committed, even if it had no commit before: then by an
empty one, beside which all its raw files still count as not compacted.
"""
