"""What AWS bills for a request, in dollars a million: on demand, us-east-1, November 2026. docs/cost.md counts by them."""

READ_UNIT = 0.125
WRITE_UNIT = 0.625
SQS_REQUEST = 0.40
S3_GET = 0.40
FIREHOSE_BYTE = 0.029 / 1000
FIREHOSE_RECORD_BYTES = 5 * 1024
"""A record is billed as a multiple of this."""
