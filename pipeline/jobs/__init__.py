"""The jobs that Spark does, a module each: `run` does one as `pipeline.arguments` describes it, and returns its exit status.

What they compute is in the packages beside this one. Here are the order, what is logged, and what is printed.
"""
