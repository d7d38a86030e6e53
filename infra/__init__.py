"""The AWS account as code: one construct per concern, three stacks that wire them and make the grants."""
