"""The Polkadot statement store: signed statements, of which a rule names the sender and one topic."""
