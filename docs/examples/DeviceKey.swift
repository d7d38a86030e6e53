// The device key, and what it opens: for the app and its notification service extension alike. From iOS 17 on.
// Both have the capability Keychain Sharing with one group in common.

import CryptoKit
import Foundation
import Security

struct DeviceKey {
    enum Failure: Error {
        case keychain(OSStatus)
    }

    private let key: Curve25519.KeyAgreement.PrivateKey

    /// The key as it was made at first: by the app, before it registers.
    init(keychainGroup: String = "ABCDE12345.com.example.push") throws {
        let item: [CFString: Any] = [
            kSecClass: kSecClassGenericPassword,
            kSecAttrService: "clarion-device-key",
            kSecAttrAccessGroup: keychainGroup,
        ]
        var found: CFTypeRef?
        let status = SecItemCopyMatching(item.merging([kSecReturnData: true]) { $1 } as CFDictionary, &found)
        if status == errSecSuccess, let raw = found as? Data {
            key = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: raw)
            return
        }
        guard status == errSecItemNotFound else { throw Failure.keychain(status) }
        key = Curve25519.KeyAgreement.PrivateKey()
        let stored: [CFString: Any] = [
            kSecValueData: key.rawRepresentation,
            // Pushes come while the phone is locked, too, and a backup's copy on another phone would open nothing.
            kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        let added = SecItemAdd(item.merging(stored) { $1 } as CFDictionary, nil)
        guard added == errSecSuccess else { throw Failure.keychain(added) }
    }

    /// The `device_key`, to register with and to PATCH at each start: a registration that is a 409 doesn't store it.
    var text: String {
        key.publicKey.rawRepresentation.base64EncodedString()
            .replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    /// The members that were sealed.
    func open(_ sealed: Data, subscriptionId: String) throws -> [String: Any] {
        var recipient = try HPKE.Recipient(
            privateKey: key,
            ciphersuite: .Curve25519_SHA256_ChachaPoly,
            info: Data("clarion push v1\(subscriptionId)".utf8),
            encapsulatedKey: Data(sealed.prefix(32))
        )
        let plaintext = try recipient.open(Data(sealed.dropFirst(32)))
        return try JSONSerialization.jsonObject(with: plaintext) as? [String: Any] ?? [:]
    }
}

struct OpenedPush {
    /// The payload as it would have come unsealed.
    let content: [AnyHashable: Any]
    /// The one that opened it; nil if it wasn't sealed.
    let subscriptionId: String?
}

/// A payload is opened by the id of the subscription that it is for. Nil if no id does, if this app is too old for it, or
/// before the phone was unlocked for the first time.
func opened(_ payload: [AnyHashable: Any], subscriptionIds: [String]) -> OpenedPush? {
    guard let clarion = payload["clarion"] as? [String: Any], let text = clarion["sealed"] as? String else {
        return OpenedPush(content: payload, subscriptionId: nil)
    }
    guard clarion["v"] as? Int == 1, let sealed = Data(base64URL: text), let key = try? DeviceKey() else { return nil }
    let found = subscriptionIds.lazy.compactMap { id in (try? key.open(sealed, subscriptionId: id)).map { ($0, id) } }
    guard let (members, id) = found.first else { return nil }
    var content = payload
    content["clarion"] = nil
    for (name, value) in members { content[name] = value }
    return OpenedPush(content: content, subscriptionId: id)
}

private extension Data {
    /// Nil for what is no base64url.
    init?(base64URL text: String) {
        let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        self.init(base64Encoded: standard + String(repeating: "=", count: (4 - standard.count % 4) % 4))
    }
}
