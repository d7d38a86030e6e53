"""SimpleX on this machine: an SMP server, and an agent that does a device's half of notifications.

Written from the protocol's facts alone, without the product's own code for it, so that one misreading does not make
both agree.
"""
