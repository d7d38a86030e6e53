// Receives Clarion's pushes on Android. What is XMTP's goes if the app doesn't use it. In the manifest: this service
// with the action com.google.firebase.MESSAGING_EVENT, and the permissions POST_NOTIFICATIONS and
// USE_FULL_SCREEN_INTENT. The app makes the notification channels "messages" and "calls", and its one DeviceKey
// (DeviceKey.kt).

package com.example.push

import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import androidx.core.app.Person
import androidx.work.CoroutineWorker
import androidx.work.ExistingWorkPolicy
import androidx.work.ForegroundInfo
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.OutOfQuotaPolicy
import androidx.work.WorkManager
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage
import java.io.IOException
import java.security.MessageDigest
import org.json.JSONObject

private const val CALL_MILLISECONDS = 30_000L
private const val MESSAGES = "messages"
private const val CALLS = "calls"
private const val WORKING = 1
private const val UNOPENED = 2

class PushService : FirebaseMessagingService() {
    private val app get() = application as PushApplication

    override fun onNewToken(token: String) = runOnce(this, "register", "token" to token)

    /** FCM had more than 100 messages for this phone, and has dropped them all. */
    override fun onDeletedMessages() = runOnce(this, "synchronise")

    override fun onMessageReceived(message: RemoteMessage) {
        val (ids, removed) = app.messages.run { subscriptionIds to removedIds }
        val opened = app.deviceKey.open(message.data, ids + removed) ?: return onUnopened(message)
        if (opened.subscriptionId in removed) return
        when (val push = ReceivedPush.of(opened.content)) {
            is ReceivedStatement -> if (app.messages.wants(push.topic, push.sender)) onStatement(message, push)
            is ReceivedMessage -> if (app.messages.wants(push.topic)) onMessage(message, push)
            RefreshKeys -> runOnce(this, "install")
            null -> onClarion(JSONObject(opened.content["clarion"] ?: "{}"))
        }
    }

    /**
     * Sealed for another key. One of normal priority shows nothing if it can be opened, nor does it here: it may be a
     * code that somebody else has asked for, with this token and a key of theirs.
     */
    private fun onUnopened(message: RemoteMessage) {
        if (message.originalPriority == RemoteMessage.PRIORITY_NORMAL) return
        showText(this, getString(R.string.app_name), "You may have new messages.", UNOPENED)
        runOnce(this, "recover")
    }

    private fun onClarion(own: JSONObject) = when (own.optString("purpose")) {
        "verification" ->
            runOnce(this, "prove", "id" to own.getString("subscription_id"), "code" to own.getString("code"))
        else -> runOnce(this, "synchronise")
    }

    /** XMTP's SDK decrypts it, or syncs its topic. A silent one shows nothing. */
    private fun onMessage(message: RemoteMessage, received: ReceivedMessage) {
        if (message.originalPriority == RemoteMessage.PRIORITY_NORMAL) return runOnce(this, "synchronise")
        if (received.id?.let(app.messages::isNew) == false) return
        showText(this, getString(R.string.app_name), "You have a new message.", received.number)
        runOnce(
            this, "read", "topic" to received.topic, "encrypted" to received.encrypted,
            "number" to received.number.toString(),
        )
    }

    private fun onStatement(message: RemoteMessage, statement: ReceivedStatement) {
        if (!app.messages.isNew(statement.id)) return
        val left = message.sentTime + CALL_MILLISECONDS - System.currentTimeMillis()
        when {
            statement.isCall && left > 0 -> showCall(statement, left)
            statement.isCall -> showMissedCall(statement)
            statement.data == null -> fetch(statement)
            else -> showMessage(this, app.messages, statement.sender, statement.topic, statement.data, statement.number)
        }
    }

    /** A worker has minutes where this service has seconds. */
    private fun fetch(statement: ReceivedStatement) {
        showText(this, app.messages.nameOf(statement.sender), "You have a new message.", statement.number)
        runOnce(
            this, "fetch", "hash" to statement.hash, "topic" to statement.topic,
            "sender" to statement.sender, "number" to statement.number.toString(),
        )
    }

    /**
     * The screen of the call decrypts the offer, or fetches it, while the phone rings. If what it has fetched has a
     * `statementId` that isn't new, the call has rung before, and ends.
     */
    private fun showCall(statement: ReceivedStatement, left: Long) {
        val answer = screen(statement, "answer")
        val caller = Person.Builder().setName(app.messages.nameOf(statement.sender)).setImportant(true).build()
        val notification = NotificationCompat.Builder(this, CALLS)
            .setSmallIcon(R.drawable.ic_call)
            .setStyle(NotificationCompat.CallStyle.forIncomingCall(caller, screen(statement, "decline"), answer))
            .setCategory(NotificationCompat.CATEGORY_CALL)
            .setPriority(NotificationCompat.PRIORITY_MAX)
            .setFullScreenIntent(screen(statement, "ring"), true)
            .setTimeoutAfter(left)
            .build()
        NotificationManagerCompat.from(this).notify(statement.number, notification)
    }

    private fun showMissedCall(statement: ReceivedStatement) =
        showText(this, app.messages.nameOf(statement.sender), "Missed call", statement.number)

    private fun screen(statement: ReceivedStatement, action: String): PendingIntent {
        val intent = Intent(this, CallActivity::class.java)
            .setAction(action)
            .putExtra("sender", statement.sender)
            .putExtra("topic", statement.topic)
            .putExtra("data", statement.data)
            .putExtra("hash", statement.hash)
        val flags = PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE
        return PendingIntent.getActivity(this, statement.number, intent, flags)
    }
}

/** What a push is about, once it is opened, by the members that its network gives it. */
sealed interface ReceivedPush {
    companion object {
        /** Null for Clarion's own, and for what a later version sends. */
        fun of(content: Map<String, String>): ReceivedPush? = when {
            "statement_topic" in content -> ReceivedStatement(content)
            content["messageType"] == "refresh-keys" -> RefreshKeys
            "messageType" in content -> ReceivedMessage(content)
            else -> null
        }
    }
}

/** XMTP asks for fresh keys. Nothing is shown. */
data object RefreshKeys : ReceivedPush

/** What a push says of a message of XMTP. `encrypted` is base64 for the SDK, null if it didn't fit: sync the topic. */
class ReceivedMessage(content: Map<String, String>) : ReceivedPush {
    val topic = content.getValue("topic")
    val encrypted = content["encryptedMessage"]

    /** The same whenever this push is repeated; null if it can't be known from others of its topic. */
    val id = encrypted?.let { MessageDigest.getInstance("SHA-256").digest((topic + it).toByteArray()) }

    /** Of its notification. */
    val number = id?.contentHashCode() ?: topic.hashCode()
}

/** What a push says of a statement. `data` is null if it didn't fit, and `hash` says then which statement to fetch. */
class ReceivedStatement(content: Map<String, String>) : ReceivedPush {
    val topic = content.getValue("statement_topic")
    val sender = content.getValue("sender_pubkey")
    val data = content["statement_data"]
    val hash = content["hash"]
    val isCall = content["notify_type"] == "voip"

    /** The same whenever this push is repeated. The sender makes the data of each message unique. */
    val id = statementId(sender, topic, data ?: hash)

    /** Of its notification, which a repeat replaces. */
    val number = id.contentHashCode()
}

/** By the hash, or by the data, which is the same though the statement is signed anew. */
fun statementId(sender: String, topic: String, dataOrHash: String?): ByteArray =
    MessageDigest.getInstance("SHA-256").digest((sender + topic + dataOrHash).toByteArray())

/** What your app has already: its keys, its contacts, its own database. */
interface Messages {
    /**
     * Of all networks and accounts on this phone: as the API gave them, XMTP's as docs/xmtp.md computes them. Those that
     * have ended stay for 30 days, while their account is signed in.
     */
    val subscriptionIds: Collection<String>

    /** Those of an account that has signed out, for 30 days: a push that was on its way opens by them, and is passed over. */
    val removedIds: Collection<String>

    /** Whether a rule of an account that is signed in names this; XMTP's have no `sender`. */
    fun wants(topic: String, sender: String? = null): Boolean

    fun nameOf(sender: String): String

    /** The text; null if the data can't be decrypted. */
    fun read(data: String, sender: String, topic: String): String?

    /** The data, in hex, of the statement with this hash, from a node: see fetch_statement.py. */
    suspend fun fetch(hash: String, topic: String): String

    /** Whether it has not been handled yet, and from now on it has. */
    fun isNew(id: ByteArray): Boolean

    /** Who wrote a message of XMTP, and what it says, by the SDK; null if it can't be decrypted. */
    suspend fun read(topic: String, encrypted: String?): Pair<String, String>?

    /** Reads from each network all that came since it was last read. */
    suspend fun synchronise()
}

/**
 * The calls of Clarion's API that the app needs: see docs/api.md. Each throws IOException, for the worker to repeat it,
 * if there is no answer, or a 429, 500, 502, 503 or 504, or as long as a `Retry-After` has not passed.
 */
interface Clarion {
    /**
     * PUT of the subscription's token, if there is one with another; else POST /v1/subscriptions, where a 409 that
     * names a subscription of one's own is a success, and changes nothing. So PATCH of `device_key` (and
     * `wake_every_minutes`), then PUT of all rules. For a subscription that is still pending a minute later, POST
     * /v1/subscriptions/{id}/proof/request. At each start, too.
     */
    suspend fun register(token: String)

    /**
     * XMTP: RegisterInstallation with the token registered last, PATCH of its `device_key`, then SubscribeWithMetadata
     * to all topics, with fresh keys of the SDK. At each start, too: see docs/xmtp.md.
     */
    suspend fun registerInstallation()

    /** PATCH of each subscription's `device_key`. */
    suspend fun sendDeviceKey()

    /** DELETE /v1/subscriptions; XMTP: DeleteInstallation. For the app to call before it drops the bearer token. */
    suspend fun signOut()

    /**
     * POST /v1/subscriptions/{id}/proof, where a 404 is no error: the code is for somebody else's subscription. Then
     * `registerInstallation`, if it was XMTP's.
     */
    suspend fun prove(subscription: String, code: String)
}

/** What takes longer than a push may. */
class PushWorker(context: Context, parameters: WorkerParameters) : CoroutineWorker(context, parameters) {
    private val app = context.applicationContext as PushApplication

    override suspend fun doWork(): Result = try {
        when (text("task")) {
            "register" -> register()
            "install" -> app.clarion.registerInstallation()
            "prove" -> app.clarion.prove(text("id"), text("code"))
            "fetch" -> showFetched()
            "read" -> showRead()
            "recover" -> recover()
            else -> app.messages.synchronise()
        }
        Result.success()
    } catch (_: IOException) {
        Result.retry()
    }

    /** What Android 11 and older show while the work goes on. */
    override suspend fun getForegroundInfo() =
        ForegroundInfo(WORKING, notification(applicationContext, "Looking for messages", ""))

    private suspend fun register() {
        app.clarion.register(text("token"))
        app.clarion.registerInstallation()
    }

    private suspend fun recover() {
        app.clarion.sendDeviceKey()
        app.messages.synchronise()
    }

    /** Data that was signed anew has been shown before, under another hash: then the notification is withdrawn. */
    private suspend fun showFetched() {
        val (sender, topic, number) = Triple(text("sender"), text("topic"), text("number").toInt())
        val data = app.messages.fetch(text("hash"), topic)
        if (app.messages.isNew(statementId(sender, topic, data))) {
            showMessage(applicationContext, app.messages, sender, topic, data, number)
        } else {
            NotificationManagerCompat.from(applicationContext).cancel(number)
        }
    }

    private suspend fun showRead() {
        val (name, said) = app.messages.read(text("topic"), inputData.getString("encrypted")) ?: return
        showText(applicationContext, name, said, text("number").toInt())
    }

    private fun text(name: String) = inputData.getString(name).orEmpty()
}

private fun runOnce(context: Context, task: String, vararg arguments: Pair<String, String?>) {
    val work = OneTimeWorkRequestBuilder<PushWorker>()
        .setInputData(workDataOf("task" to task, *arguments))
        .setExpedited(OutOfQuotaPolicy.RUN_AS_NON_EXPEDITED_WORK_REQUEST)
        .build()
    // Not by the arguments themselves: there are a token and a code among them, and names are logged.
    val name = "$task ${arguments.toList().hashCode()}"
    // What is asked for while the same task runs may be news to it, so it runs once more.
    WorkManager.getInstance(context).enqueueUniqueWork(name, ExistingWorkPolicy.APPEND_OR_REPLACE, work)
}

private fun showMessage(
    context: Context, messages: Messages, sender: String, topic: String, data: String, number: Int,
) = showText(context, messages.nameOf(sender), messages.read(data, sender, topic) ?: "You have a new message.", number)

private fun showText(context: Context, title: String, text: String, number: Int) =
    NotificationManagerCompat.from(context).notify(number, notification(context, title, text))

private fun notification(context: Context, title: String, text: String) =
    NotificationCompat.Builder(context, MESSAGES)
        .setSmallIcon(R.drawable.ic_message)
        .setContentTitle(title)
        .setContentText(text)
        .setPriority(NotificationCompat.PRIORITY_HIGH)
        .build()
