"""What leaves: envelopes for match and for the lake, and commands for their networks' functions."""
