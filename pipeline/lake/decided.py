"""What the lake says was decided of a notification, where a redelivered envelope was decided more than once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision

_WHO = ("receipt", "subscription_id")


def decided_once(notified: DataFrame) -> DataFrame:
    """One row for each receipt and subscription: what one line says was queued was queued; else the first line's."""
    queued_first = F.struct(F.col("decision") != NotificationDecision.QUEUED, "at")
    values = F.struct(*(name for name in notified.columns if name not in _WHO))
    return notified.groupBy(*_WHO).agg(F.min_by(values, queued_first).alias("whole")).select(*_WHO, "whole.*")
