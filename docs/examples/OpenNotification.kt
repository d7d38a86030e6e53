// What a push of WalletConnect brings, opened and verified. Needs com.google.crypto.tink:tink-android.

package com.example.push

import android.util.Base64
import com.google.crypto.tink.subtle.ChaCha20Poly1305
import com.google.crypto.tink.subtle.Ed25519Verify
import java.security.GeneralSecurityException
import org.json.JSONException
import org.json.JSONObject

private const val BASE64URL = Base64.URL_SAFE or Base64.NO_PADDING or Base64.NO_WRAP
private val NO_ASSOCIATED_DATA = ByteArray(0)

/**
 * What the wallet keeps of each of its subscriptions: `key` is its `symKey`, whose SHA-256 in hex is the topic; `app` the
 * app's domain; `account` such as `eip155:1:0x…`; `authenticationKey` the public key of 32 bytes that the app's `did.json`
 * has as `wc-notify-authentication-key`.
 */
class NotifySubscription(val key: ByteArray, val app: String, val account: String, val authenticationKey: ByteArray)

/**
 * The notification, with `id`, `title`, `body`, `icon`, `url`, `type` and `sent_at`. Null for what is to be passed over, and
 * without a message: then there is its hash, and the relay has it on the topic.
 */
fun openNotification(data: Map<String, String>, subscription: NotifySubscription): JSONObject? = try {
    data["message"]?.let { message ->
        val request = JSONObject(decrypted(message, subscription.key).decodeToString())
        verifiedClaims(request.getJSONObject("params").getString("messageAuth"), subscription)?.getJSONObject("msg")
    }
} catch (_: GeneralSecurityException) {
    null
} catch (_: JSONException) {
    null
} catch (_: IllegalArgumentException) {
    null
}

private fun decrypted(message: String, key: ByteArray): ByteArray {
    val envelope = Base64.decode(message, Base64.DEFAULT)
    require(envelope.isNotEmpty() && envelope[0] == 0.toByte()) { "not of type 0" }
    // After the type a nonce of 12 bytes, what is encrypted, and a tag of 16: as Tink combines them.
    return ChaCha20Poly1305(key).decrypt(envelope.copyOfRange(1, envelope.size), NO_ASSOCIATED_DATA)
}

private fun verifiedClaims(token: String, subscription: NotifySubscription): JSONObject? {
    val parts = token.split(".")
    require(parts.size == 3) { "no token" }
    val signature = Base64.decode(parts[2], BASE64URL)
    Ed25519Verify(subscription.authenticationKey).verify(signature, "${parts[0]}.${parts[1]}".toByteArray())
    val (header, claims) = parts.take(2).map { JSONObject(Base64.decode(it, BASE64URL).decodeToString()) }
    // The protocol of August 2023 has the account in `aud`, the shipped one in `sub`.
    val account = claims.optString(if (claims.has("aud")) "aud" else "sub")
    val holds = header.optString("alg") == "EdDSA" &&
        claims.optString("act") == "notify_message" &&
        claims.optString("app") == "did:web:${subscription.app}" &&
        account == "did:pkh:${subscription.account}" &&
        claims.getLong("exp") > System.currentTimeMillis() / 1000
    return claims.takeIf { holds }
}
