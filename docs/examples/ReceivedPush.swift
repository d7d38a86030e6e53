// What a push is about, once it is opened (DeviceKey.swift), by the members that its network gives it.

import Foundation

enum ReceivedPush {
    case statement(ReceivedStatement)
    case message(ReceivedMessage)
    /// XMTP asks for fresh keys. Nothing is shown.
    case refreshKeys

    /// Nil for Clarion's own, and for what a later version sends.
    init?(_ payload: [AnyHashable: Any]) {
        if let statement = ReceivedStatement(payload) {
            self = .statement(statement)
        } else if payload["messageKind"] as? String == "refresh-keys" {
            self = .refreshKeys
        } else if let message = ReceivedMessage(payload) {
            self = .message(message)
        } else {
            return nil
        }
    }
}

/// What a push says of a message of XMTP.
struct ReceivedMessage {
    let topic: String
    /// `v3-conversation`, `v3-welcome` or `v2-conversation`.
    let kind: String
    /// For the SDK to decrypt. Nil if it didn't fit the push: have the SDK sync the topic.
    let encrypted: Data?

    init?(_ payload: [AnyHashable: Any]) {
        guard let kind = payload["messageKind"] as? String, let topic = payload["topic"] as? String else { return nil }
        self.topic = topic
        self.kind = kind
        encrypted = (payload["encryptedMessage"] as? String).flatMap { Data(base64Encoded: $0) }
    }
}
