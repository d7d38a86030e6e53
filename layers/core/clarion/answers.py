"""What AWS answered, parsed with less work than the SDK's parser takes, to the same result.

The SDK looks for each member that a structure may have: ten for each value of DynamoDB, of which one is there.
"""

from typing import TYPE_CHECKING, Any

from botocore.parsers import JSONParser, ResponseParserFactory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.model import Shape, StructureShape


class AnswerParserFactory(ResponseParserFactory):
    """A session's component `response_parser_factory`."""

    def create_parser(self, protocol_name: str) -> Any:
        if protocol_name != "json":
            return super().create_parser(protocol_name)
        return AnswerParser(**self._defaults)  # type: ignore[attr-defined] # not in the stubs


class AnswerParser(JSONParser):
    """Goes through the members that were answered. What has one that the SDK doesn't know is left to the SDK."""

    def _handle_structure(self, shape: "StructureShape", value: Any) -> Any:
        members: Mapping[str, Shape] = shape.members
        parsed: dict[str, Any] = {}
        if shape.is_document_type or shape.is_tagged_union or value is None or not value.keys() <= members.keys():
            return super()._handle_structure(shape, value)  # type: ignore[misc] # not in the stubs
        for name, content in value.items():
            if content is not None:
                parsed[name] = self._parse_shape(members[name], content)  # type: ignore[attr-defined] # not in the stubs
        return parsed
