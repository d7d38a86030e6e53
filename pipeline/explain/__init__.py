"""`explain`: what became of an envelope, a receipt or a subscription, what should have, and why; from the lake alone.

    envelope, receipt ──▶ trail, its keys ──▶ rules ──▶ subscriptions ─┐
    subscription ──▶ its rules' keys ──▶ envelopes that name one ──────┴──▶ judged, one observation at a time

Neither Spark nor Java is started: `pipeline.lake.lookup` says what is read, `judgement` how it is judged.
"""
