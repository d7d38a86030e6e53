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
import org.json.JSONObject

private const val TEMPLATE = "DHKEM_X25519_HKDF_SHA256_HKDF_SHA256_CHACHA20_POLY1305_RAW"
private const val BASE64URL = Base64.URL_SAFE or Base64.NO_PADDING or Base64.NO_WRAP

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

    /** A message's data as it would have come unsealed. What isn't sealed stays as it is. */
    fun open(data: Map<String, String>, subscriptionId: String): Map<String, String> {
        val clarion = JSONObject(data["clarion"] ?: return data)
        if (!clarion.has("sealed")) return data
        require(clarion.getInt("v") == 1) { "sealed in another way: this app is too old for it" }
        val sealed = Base64.decode(clarion.getString("sealed"), BASE64URL)
        val decrypt = keyset.getPrimitive(RegistryConfiguration.get(), HybridDecrypt::class.java)
        val plaintext = decrypt.decrypt(sealed, "clarion push v1$subscriptionId".toByteArray())
        val content = JSONObject(plaintext.decodeToString())
        return content.keys().asSequence().associateWith(content::getString)
    }

    private companion object {
        init {
            HybridConfig.register()
        }
    }
}
