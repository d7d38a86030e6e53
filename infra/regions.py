"""What is another in each region."""

ZONES = {
    "us-east-1": ("use1-az1", "use1-az2"),
    "us-east-2": ("use2-az1", "use2-az2"),
    "us-west-1": ("usw1-az1", "usw1-az3"),
    "us-west-2": ("usw2-az1", "usw2-az2"),
}
"""Two in which EMR Serverless works, by the ids that mean the same in every account, as names like `us-east-1a` don't:
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html"""
