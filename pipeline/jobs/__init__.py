"""The jobs that Spark does, a module each: `run` does one as `pipeline.arguments` describes it, and returns its exit status.

What they compute is in the modules beside this package. Here are the order, what is logged, and what is printed.
"""
