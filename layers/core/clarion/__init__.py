"""What the rooms share: the statement codec, signatures, payloads, messages, tables and decisions.

Importing this package imports nothing else. The pure modules (`statement`, `signature`, `limiter`, `payload`,
`messages`, `decisions`) never import an AWS client: Lambdas, Spark jobs and tests all use them.
"""
