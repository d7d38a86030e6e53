// What a push says of a statement, for the app and its notification service extension alike.

import CryptoKit
import Foundation

struct ReceivedStatement {
    let topic: String
    let sender: String
    /// Encrypted by the sender. Nil if it didn't fit the push, empty if the statement has none.
    let data: Data?
    /// BLAKE2b-256 of the whole statement, if `data` is nil.
    let hash: String?

    /// Nil for a push that is about no statement.
    init?(_ payload: [AnyHashable: Any]) {
        guard let statement = payload["statement"] as? [String: Any],
              let topic = statement["topic"] as? String,
              let sender = statement["sender_pubkey"] as? String
        else { return nil }
        self.topic = topic
        self.sender = sender
        data = (statement["data"] as? String).flatMap(Data.init(hex:))
        hash = statement["hash"] as? String
        if data == nil && hash == nil { return nil }
    }

    /// The same whenever this push is repeated. The sender makes the data of each message unique.
    var id: Data { id(by: data ?? Data((hash ?? "").utf8)) }

    /// By the data, once it is fetched: the same though the statement is signed anew.
    func id(by content: Data) -> Data {
        var digest = SHA256()
        digest.update(data: Data(sender.utf8))
        digest.update(data: Data(topic.utf8))
        digest.update(data: content)
        return Data(digest.finalize())
    }
}

extension Data {
    /// Nil if `hex` is no pairs of hex digits.
    init?(hex: String) {
        let digits = Array(hex.utf8).compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == hex.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        self.init(stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) })
    }
}

/// What your app has already: its keys, its contacts, its own database. App and extension share it by an app group.
protocol Messages {
    /// Of all networks and accounts on this phone: as the API gave them, XMTP's as docs/xmtp.md computes them. Those that
    /// have ended stay for 30 days, while their account is signed in.
    var subscriptionIds: [String] { get }
    /// Those of an account that has signed out, for 30 days: a push that was on its way opens by them, and is passed over.
    var removedIds: [String] { get }
    /// Whether a rule of an account that is signed in names this; XMTP's have no `sender`.
    func wants(topic: String, sender: String?) -> Bool
    /// Who the sender is, and what the data says; nil if the sender is no contact, or the data can't be decrypted.
    func read(_ data: Data, from sender: String, topic: String) -> (name: String, text: String)?
    /// The same of a message of XMTP, by its SDK, which syncs the topic if `encrypted` is nil.
    func read(_ message: ReceivedMessage) async throws -> (name: String, text: String)?
    /// The data of the statement with this hash, from a node: see fetch_statement.py.
    func fetch(hash: String, topic: String) async throws -> Data
    func name(of sender: String) -> String?
    /// Whether it has not been handled yet, and from now on it has.
    func isNew(_ id: Data) -> Bool
    /// Reads from each network all that came since it was last read.
    func synchronise() async throws
}

extension Messages {
    /// By whichever id opens it.
    func open(_ payload: [AnyHashable: Any]) -> OpenedPush? {
        opened(payload, subscriptionIds: subscriptionIds + removedIds)
    }

    /// False for what was still on its way when an account signed out.
    func isForAnAccount(_ push: OpenedPush) -> Bool {
        if let id = push.subscriptionId, removedIds.contains(id) { return false }
        switch ReceivedPush(push.content) {
        case .statement(let statement)?: return wants(topic: statement.topic, sender: statement.sender)
        case .message(let message)?: return wants(topic: message.topic, sender: nil)
        case .refreshKeys?, nil: return true
        }
    }
}
