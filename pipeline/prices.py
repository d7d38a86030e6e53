"""What AWS bills, in dollars a million: on demand, us-east-1, November 2026. docs/cost.md counts by them."""

READ_UNIT = 0.125
WRITE_UNIT = 0.625
SQS_REQUEST = 0.40
API_REQUEST = 1.00
"""Of an HTTP API, up to 512 KB."""
S3_GET = 0.40
S3_PUT = 5.00
SECRET_GET = 5.00
STREAM_READ, FREE_STREAM_READS = 0.20, 2_500_000
"""Of a table's stream, and how many a month cost nothing."""
FIREHOSE_BYTE = 0.029 / 1000
FIREHOSE_RECORD_BYTES = 5 * 1024
"""A record is billed as a multiple of this."""
INVOCATION = 0.20
GIGABYTE_SECOND = 13.3334
"""Of a Lambda function, on arm64."""
SCHEDULER = 1.00
"""Invocations by EventBridge Scheduler."""
LOG_BYTE = 0.50 / 1000
TRACE = 5.00
SENT_BYTE = 0.09 / 1000
"""Sent to the internet."""
METRIC_MONTH = 0.30e6
"""A million metrics recorded for a month."""
S3_BYTE_MONTH = 0.023 / 1000
TABLE_BYTE_MONTH, BACKUP_BYTE_MONTH = 0.25 / 1000, 0.20 / 1000
"""Kept in a table, and in its continuous backup."""
