"""`generate`: a realistic lake of any size, with known answers, for tests, benchmarks and the demo.

A made-up day: senders from the loud to the quiet, receivers with one or two subscriptions, rule sets that change,
tokens that die, statements that last, forged, malformed and expired ones, statements shown twice, floods; and messages
of another network, one's own among them. The live system's part is played by plain joins on numbers and a naive
limiter, which share nothing with the code that is put to the test. Then faults are planted into its events, and each is
written down as an answer.
"""
