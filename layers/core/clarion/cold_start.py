"""What a function does while it starts, when all that it makes is there to stay.

    with without_collection():
        from match.worker import MatchWorker

An import makes a hundred thousand objects, and Python's collector would go through all of them again and again: that is
a fourteenth of what a start takes of the processor. Later it would go through them in the midst of an invocation.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Nothing is collected within, and what is there at the end is never looked through again.

    A caller that had collection off has it off afterwards.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
