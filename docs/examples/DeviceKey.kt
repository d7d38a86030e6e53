// The device key, and what it opens. Needs com.google.crypto.tink:tink-android.

package com.example.push

import android.content.Context
import android.util.Base64
import com.google.crypto.tink.HybridDecrypt
import com.google.crypto.tink.KeyTemplates
import com.google.crypto.tink.RegistryConfiguration
import com.google.crypto.tink.hybrid.HpkePublicKey
import com.google.crypto.tink.hybrid.HybridConfig
import com.google.crypto.tink.integration.android.AndroidKeysetManager
import java.security.GeneralSecurityException
import org.json.JSONObject

private const val TEMPLATE = "DHKEM_X25519_HKDF_SHA256_HKDF_SHA256_CHACHA20_POLY1305_RAW"
private const val BASE64URL = Base64.URL_SAFE or Base64.NO_PADDING or Base64.NO_WRAP

/** `content` is what would have come unsealed; `subscriptionId` is the id that opened it, null if it wasn't sealed. */
class OpenedPush(val content: Map<String, String>, val subscriptionId: String?)

/** Made at first, and stored encrypted by a key of the Android Keystore. Leave the preferences "clarion" out of backups. */
class DeviceKey(context: Context) {
    private val keyset = AndroidKeysetManager.Builder()
        .withSharedPref(context, "device_key", "clarion")
        .withMasterKeyUri("android-keystore://clarion")
        .withKeyTemplate(KeyTemplates.get(TEMPLATE))
        .build()
        .keysetHandle

    /** The `device_key`, to register with and to PATCH at each start: a registration that is a 409 doesn't store it. */
    val text: String
        get() {
            val key = keyset.publicKeysetHandle.primary.key as HpkePublicKey
            return Base64.encodeToString(key.publicKeyBytes.toByteArray(), BASE64URL)
        }

    /** A message's data is opened by the id of the subscription that it is for. Null if no id does, or this app is too old. */
    fun open(data: Map<String, String>, subscriptionIds: Iterable<String>): OpenedPush? {
        val clarion = JSONObject(data["clarion"] ?: return OpenedPush(data, null))
        if (!clarion.has("sealed")) return OpenedPush(data, null)
        if (clarion.getInt("v") != 1) return null
        val sealed = Base64.decode(clarion.getString("sealed"), BASE64URL)
        return subscriptionIds.firstNotNullOfOrNull { id ->
            decrypt(sealed, id)?.let { OpenedPush(members(JSONObject(it.decodeToString())), id) }
        }
    }

    private fun members(content: JSONObject) = content.keys().asSequence().associateWith(content::getString)

    private fun decrypt(sealed: ByteArray, subscriptionId: String): ByteArray? = try {
        keyset.getPrimitive(RegistryConfiguration.get(), HybridDecrypt::class.java)
            .decrypt(sealed, "clarion push v1$subscriptionId".toByteArray())
    } catch (_: GeneralSecurityException) {
        null
    }

    private companion object {
        init {
            HybridConfig.register()
        }
    }
}
