// The app's own part: its token at each start, and pushes that show nothing. What is XMTP's goes if the app doesn't use
// it. Capabilities: Push Notifications, and of the background modes Remote notifications and Voice over IP.

import UIKit

/// The calls of Clarion's API that the app needs, each one request: see docs/api.md.
protocol Clarion {
    /// PUT of the subscription's token, if there is one with another; else POST /v1/subscriptions, where a 409 that
    /// names a subscription of one's own is a success, and changes nothing. So PATCH of `environment` and `device_key`
    /// (and `wake_every_minutes`), then PUT of all rules. For a subscription that is still pending a minute later, POST
    /// /v1/subscriptions/{id}/proof/request.
    func register(channel: String, token: String, environment: String) async throws
    /// XMTP: RegisterInstallation with the apns token, PATCH of its `device_key`, then SubscribeWithMetadata to all
    /// topics, with fresh keys of the SDK. See docs/xmtp.md.
    func registerInstallation() async throws
    /// PATCH of each subscription's `device_key`.
    func sendDeviceKey() async throws
    /// DELETE /v1/subscriptions; XMTP: DeleteInstallation. For the app to call before it drops the bearer token.
    func signOut() async throws
    /// POST /v1/subscriptions/{id}/proof, where a 404 is no error: the code is for somebody else's subscription.
    /// Then `registerInstallation`, if it was XMTP's.
    func prove(subscription: String, code: String) async throws
}

@main
final class AppDelegate: UIResponder, UIApplicationDelegate {
    private let clarion: Clarion = ClarionApi()
    private let messages: Messages = SharedMessages()
    private lazy var calls = Calls(clarion: clarion, messages: messages)

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
        calls.start()
        application.registerForRemoteNotifications()
        return true
    }

    /// At each start, and whenever the token has changed.
    func application(_: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken token: Data) {
        Task {
            try await clarion.register(channel: "apns", token: token.hex, environment: environment)
            try await clarion.registerInstallation()
        }
    }

    /// A push with `content-available`: Clarion's own, an alert whose statement is to be fetched, or XMTP's that show
    /// nothing.
    func application(
        _: UIApplication,
        didReceiveRemoteNotification payload: [AnyHashable: Any],
        fetchCompletionHandler completion: @escaping (UIBackgroundFetchResult) -> Void
    ) {
        Task {
            do {
                try await handle(payload)
                completion(.newData)
            } catch {
                completion(.failed)
            }
        }
    }

    private func handle(_ payload: [AnyHashable: Any]) async throws {
        guard let opened = messages.open(payload) else { return try await recover(from: payload) }
        guard messages.isForAnAccount(opened) else { return }
        if case .refreshKeys? = ReceivedPush(opened.content) { return try await clarion.registerInstallation() }
        if !(try await handBack(opened.content, to: clarion)) { try await messages.synchronise() }
    }

    /// From an alert that was sealed for another key. What is no alert may be a code that somebody else has asked for,
    /// with this token and a key of theirs: nothing is done for it.
    private func recover(from payload: [AnyHashable: Any]) async throws {
        guard let aps = payload["aps"] as? [String: Any], aps["alert"] != nil else { return }
        try await clarion.sendDeviceKey()
        try await messages.synchronise()
    }
}

/// Hands back the code of a verification. False for any other push.
func handBack(_ payload: [AnyHashable: Any], to clarion: Clarion) async throws -> Bool {
    guard let own = payload["clarion"] as? [String: String],
          own["purpose"] == "verification",
          let subscription = own["subscription_id"],
          let code = own["code"]
    else { return false }
    try await clarion.prove(subscription: subscription, code: code)
    return true
}

#if DEBUG
let environment = "sandbox"
#else
let environment = "production"
#endif

extension Data {
    var hex: String { map { String(format: "%02x", $0) }.joined() }
}
