"""What the statement store needs of the account: nodes to follow, whose statements are signed."""

from clarion.networks.needs import Needs, Nodes

NEEDS = Needs(
    nodes=Nodes(option="node_urls", address=r"wss?://.+", examples=("wss://one.node.invalid", "wss://two.node.invalid"))
)
