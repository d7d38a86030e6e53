"""Zulip: servers hand over pushes that only the device can read, for tokens that only the bouncer can read.

Nothing is shown by a node: a server calls.
"""

from clarion.networks.zulip.registration import PushRegistration, RegistrationError, open_registration

__all__ = ["PushRegistration", "RegistrationError", "open_registration"]
