"""The clients of APNs and FCM, shared by dispatch and by the API's direct push.

A channel (`apns.Apns`, `fcm.Fcm`) is one app at one provider: it turns a push into an HTTP request, and the
provider's answer into an outcome. `sender.send` drives any mixture of channels over one `transport.Transport`.
"""
