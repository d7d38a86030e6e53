"""What other networks than the statement store have in a made-up day: each network registers its part here alone."""

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import SparkSession

from pipeline.generator import xmtp
from pipeline.generator.plan import Keep, Made, Plan


class Part(NamedTuple):
    """`option` of the command line says how much of it there is, and is its name in `Plan.amounts`."""

    option: str
    default: int
    help: str
    make: Callable[[SparkSession, Plan, Keep], Made]


PARTS = (Part(xmtp.MESSAGES, 2_000, "of XMTP", xmtp.make),)
