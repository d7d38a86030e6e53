"""The AWS account as code: one construct per concern, one stack that wires them and makes the grants."""
