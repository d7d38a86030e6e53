"""Which envelopes a rule may want: by their keys, which are opaque bytes here."""
