// What a push of WalletConnect brings, opened and verified: for a notification service extension.

import CryptoKit
import Foundation

/// What the wallet keeps of each of its subscriptions.
struct NotifySubscription {
    /// `symKey`: 32 bytes, whose SHA-256 in hex is the topic.
    let key: SymmetricKey
    /// The app's domain, and the account such as `eip155:1:0x…`.
    let app: String
    let account: String
    /// The public key that the app's `did.json` has as `wc-notify-authentication-key`.
    let authenticationKey: Curve25519.Signing.PublicKey
}

/// The notification, with `id`, `title`, `body`, `icon`, `url`, `type` and `sent_at`. Nil for what is to be passed over.
func openNotification(_ payload: [AnyHashable: Any], by subscription: NotifySubscription) -> [String: Any]? {
    // Without a message there is its hash: fetch what the relay has on the topic.
    guard let message = payload["message"] as? String,
          let envelope = Data(base64Encoded: message), envelope.first == 0,
          // After the type a nonce of 12 bytes, what is encrypted, and a tag of 16: as CryptoKit combines them.
          let box = try? ChaChaPoly.SealedBox(combined: Data(envelope.dropFirst())),
          let content = try? ChaChaPoly.open(box, using: subscription.key),
          let request = try? JSONSerialization.jsonObject(with: content) as? [String: Any],
          let params = request["params"] as? [String: Any],
          let token = params["messageAuth"] as? String
    else { return nil }
    return verifiedClaims(token, subscription)?["msg"] as? [String: Any]
}

private func verifiedClaims(_ token: String, _ subscription: NotifySubscription) -> [String: Any]? {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, let signature = decoded(parts[2]),
          subscription.authenticationKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)),
          let claims = members(parts[1]), members(parts[0])?["alg"] as? String == "EdDSA",
          claims["act"] as? String == "notify_message",
          claims["app"] as? String == "did:web:\(subscription.app)",
          // The protocol of August 2023 has the account in `aud`, the shipped one in `sub`.
          (claims["aud"] ?? claims["sub"]) as? String == "did:pkh:\(subscription.account)",
          let expiry = claims["exp"] as? Double, expiry > Date().timeIntervalSince1970
    else { return nil }
    return claims
}

private func members(_ part: String) -> [String: Any]? {
    guard let json = decoded(part) else { return nil }
    return try? JSONSerialization.jsonObject(with: json) as? [String: Any]
}

/// Of base64url without padding.
private func decoded(_ text: String) -> Data? {
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.count % 4) % 4))
}
