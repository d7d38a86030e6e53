// Calls by PushKit and CallKit. Whatever a VoIP push holds, a call is reported before the method returns: iOS ends an
// app that doesn't, and after some such pushes delivers no more to it.

import CallKit
import PushKit

final class Calls: NSObject, PKPushRegistryDelegate, CXProviderDelegate {
    private let clarion: Clarion
    private let messages: Messages
    private let registry = PKPushRegistry(queue: .main)
    private let provider = CXProvider(configuration: CXProviderConfiguration())

    init(clarion: Clarion, messages: Messages) {
        self.clarion = clarion
        self.messages = messages
    }

    /// To be called at each start, before `didFinishLaunching` returns.
    func start() {
        provider.setDelegate(self, queue: .main)
        registry.delegate = self
        registry.desiredPushTypes = [.voIP]
    }

    func pushRegistry(_: PKPushRegistry, didUpdate credentials: PKPushCredentials, for _: PKPushType) {
        let token = credentials.token.hex
        Task { try await clarion.register(channel: "voip", token: token, environment: environment) }
    }

    func pushRegistry(
        _: PKPushRegistry,
        didReceiveIncomingPushWith payload: PKPushPayload,
        for _: PKPushType,
        completion: @escaping () -> Void
    ) {
        let opened = messages.open(payload.dictionaryPayload)
        guard let opened, messages.isForAnAccount(opened), let statement = ReceivedStatement(opened.content) else {
            return endAtOnce(opened?.content, completion)
        }
        let call = UUID(statement.id)
        let isNew = messages.isNew(statement.id)
        let update = CXCallUpdate()
        update.remoteHandle = CXHandle(type: .generic, value: statement.sender)
        update.localizedCallerName = messages.name(of: statement.sender)
        provider.reportNewIncomingCall(with: call, update: update) { [provider] error in
            // A repeat is refused while the call rings. Afterwards it is taken for a new call, which has to end.
            if error == nil && !isNew { provider.reportCall(with: call, endedAt: nil, reason: .failed) }
            completion()
        }
        if isNew { Task { await connect(statement, as: call) } }
    }

    /// A verification, or what is to be passed over, which rings for a moment; `content` is nil if it couldn't be opened.
    private func endAtOnce(_ content: [AnyHashable: Any]?, _ completion: @escaping () -> Void) {
        let call = UUID()
        provider.reportNewIncomingCall(with: call, update: CXCallUpdate()) { _ in completion() }
        provider.reportCall(with: call, endedAt: nil, reason: .failed)
        Task {
            guard let content else { return try await clarion.sendDeviceKey() }
            _ = try await handBack(content, to: clarion)
        }
    }

    /// Ends the call if its offer can't be read, has rung before under another hash, or the caller has gone: your own
    /// offer says until when it is good.
    private func connect(_ statement: ReceivedStatement, as call: UUID) async {
        var data = statement.data
        if let hash = statement.hash {
            data = try? await messages.fetch(hash: hash, topic: statement.topic)
            if let fetched = data, !messages.isNew(statement.id(by: fetched)) { data = nil }
        }
        guard let data, let offer = messages.read(data, from: statement.sender, topic: statement.topic) else {
            return provider.reportCall(with: call, endedAt: nil, reason: .failed)
        }
        CallSession.prepare(call, offer: offer.text)
    }

    func provider(_: CXProvider, perform action: CXAnswerCallAction) {
        CallSession.answer(action.callUUID)
        action.fulfill()
    }

    func provider(_: CXProvider, perform action: CXEndCallAction) {
        CallSession.end(action.callUUID)
        action.fulfill()
    }

    func providerDidReset(_: CXProvider) {
        CallSession.endAll()
    }
}

extension UUID {
    /// Of the first 16 bytes.
    init(_ bytes: Data) {
        self = bytes.prefix(16).withUnsafeBytes { NSUUID(uuidBytes: $0.bindMemory(to: UInt8.self).baseAddress) as UUID }
    }
}
