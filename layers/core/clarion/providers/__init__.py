"""The clients of APNs, FCM and Web Push, shared by dispatch and by the API's direct push.

An app (`apns.ApnsApp`, `fcm.FcmApp`, `webpush.WebPushApp`) is one app at one provider: it builds its pushes, each of
which knows its HTTP request and turns the provider's answer into an outcome. `sender.send` sends the pushes of any apps
together, over one `transport.Transport`.
"""
