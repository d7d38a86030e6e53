"""Nodes of XMTP, by way of `MessageApi.SubscribeAll` over gRPC.

gRPC's own log quotes what a node says, such as the text of its GOAWAY, so it is shut off before the library is imported:
https://github.com/grpc/grpc/blob/master/doc/environment_variables.md
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
