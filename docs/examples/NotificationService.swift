// The notification service extension: iOS hands it each alert, and shows what it makes of it. It has about 30 seconds.

import UserNotifications

final class NotificationService: UNNotificationServiceExtension {
    private let messages: Messages = SharedMessages()
    private var show: ((UNNotificationContent) -> Void)?
    private var content = UNMutableNotificationContent()
    private var work: Task<Void, Never>?

    override func didReceive(
        _ request: UNNotificationRequest,
        withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) {
        show = contentHandler
        content = request.content.mutableCopy() as? UNMutableNotificationContent ?? content
        let opened = messages.open(request.content.userInfo)
        // An alert can't be dropped: of one for an account that has signed out the title alone is shown.
        if let opened, !messages.isForAnAccount(opened) { return finish() }
        content.body = "You have a new message."
        guard let opened, let push = ReceivedPush(opened.content) else { return finish() }
        work = Task { @MainActor in
            if let message = try? await read(push) {
                content.title = message.name
                content.body = message.text
            }
            finish()
        }
    }

    /// The time is over: iOS shows what there is by now, or else the push as it came.
    override func serviceExtensionTimeWillExpire() {
        work?.cancel()
        finish()
    }

    private func read(_ push: ReceivedPush) async throws -> (name: String, text: String)? {
        switch push {
        case .statement(let statement): return try await read(statement)
        case .message(let message): return try await messages.read(message)
        case .refreshKeys: return nil
        }
    }

    private func read(_ statement: ReceivedStatement) async throws -> (name: String, text: String)? {
        let data: Data
        if let pushed = statement.data {
            data = pushed
        } else if let hash = statement.hash {
            data = try await messages.fetch(hash: hash, topic: statement.topic)
        } else {
            return nil
        }
        return messages.read(data, from: statement.sender, topic: statement.topic)
    }

    private func finish() {
        show?(content)
        show = nil
    }
}
