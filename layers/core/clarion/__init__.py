"""What the components share: the networks, the channels and providers, messages, events, tables and limits.

Importing this package imports nothing else. The pure modules (`networks`, `limiter`, `messages`, `decisions`) never
import an AWS client: Lambdas, Spark jobs and tests all use them.
"""
