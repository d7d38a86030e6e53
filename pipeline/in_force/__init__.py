"""Which rules, subscriptions and limits were in force, and when."""
