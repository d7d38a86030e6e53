from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeEnvelope(_message.Message):
    __slots__ = ("content_topic", "timestamp_ns", "message")
    CONTENT_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    content_topic: str
    timestamp_ns: int
    message: bytes
    def __init__(self, content_topic: _Optional[str] = ..., timestamp_ns: _Optional[int] = ..., message: _Optional[bytes] = ...) -> None: ...

class GroupMessage(_message.Message):
    __slots__ = ("v1",)
    class V1(_message.Message):
        __slots__ = ("id", "created_ns", "group_id", "data", "sender_hmac", "should_push", "is_commit")
        ID_FIELD_NUMBER: _ClassVar[int]
        CREATED_NS_FIELD_NUMBER: _ClassVar[int]
        GROUP_ID_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        SENDER_HMAC_FIELD_NUMBER: _ClassVar[int]
        SHOULD_PUSH_FIELD_NUMBER: _ClassVar[int]
        IS_COMMIT_FIELD_NUMBER: _ClassVar[int]
        id: int
        created_ns: int
        group_id: bytes
        data: bytes
        sender_hmac: bytes
        should_push: bool
        is_commit: bool
        def __init__(self, id: _Optional[int] = ..., created_ns: _Optional[int] = ..., group_id: _Optional[bytes] = ..., data: _Optional[bytes] = ..., sender_hmac: _Optional[bytes] = ..., should_push: _Optional[bool] = ..., is_commit: _Optional[bool] = ...) -> None: ...
    V1_FIELD_NUMBER: _ClassVar[int]
    v1: GroupMessage.V1
    def __init__(self, v1: _Optional[_Union[GroupMessage.V1, _Mapping]] = ...) -> None: ...

class ConversationMessage(_message.Message):
    __slots__ = ("v1", "v2")
    class V2(_message.Message):
        __slots__ = ("header_bytes", "ciphertext", "sender_hmac", "should_push")
        HEADER_BYTES_FIELD_NUMBER: _ClassVar[int]
        CIPHERTEXT_FIELD_NUMBER: _ClassVar[int]
        SENDER_HMAC_FIELD_NUMBER: _ClassVar[int]
        SHOULD_PUSH_FIELD_NUMBER: _ClassVar[int]
        header_bytes: bytes
        ciphertext: bytes
        sender_hmac: bytes
        should_push: bool
        def __init__(self, header_bytes: _Optional[bytes] = ..., ciphertext: _Optional[bytes] = ..., sender_hmac: _Optional[bytes] = ..., should_push: _Optional[bool] = ...) -> None: ...
    V1_FIELD_NUMBER: _ClassVar[int]
    V2_FIELD_NUMBER: _ClassVar[int]
    v1: bytes
    v2: ConversationMessage.V2
    def __init__(self, v1: _Optional[bytes] = ..., v2: _Optional[_Union[ConversationMessage.V2, _Mapping]] = ...) -> None: ...
