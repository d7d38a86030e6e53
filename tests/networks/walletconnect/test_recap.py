import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion import base64url, compact_json
from clarion.networks.walletconnect import recap
from clarion.networks.walletconnect.recap import Recap

SENTENCE = "I further authorize the stated URI to perform the following actions on my behalf:"
GRANTS: dict[str, dict[str, list[object]]] = {
    "https://example.com": {"example/append": [], "example/read": [], "other/action": []},
    "my:resource:uri.1": {"example/append": [], "example/delete": []},
    "my:resource:uri.2": {"example/append": []},
    "my:resource:uri.3": {"example/append": []},
}
EIP_5573_EXAMPLE = {"att": GRANTS, "prf": []}


def uri_of(content: object) -> str:
    return recap.PREFIX + base64url.encode(compact_json.encode(content))


def test_a_statement_lists_resources_and_namespaces_in_order() -> None:
    assert recap.statement_of(recap.parse(uri_of(EIP_5573_EXAMPLE))) == (
        f"{SENTENCE} (1) 'example': 'append', 'read' for 'https://example.com'. (2) 'other': 'action' for "
        "'https://example.com'. (3) 'example': 'append', 'delete' for 'my:resource:uri.1'. (4) 'example': 'append' for "
        "'my:resource:uri.2'. (5) 'example': 'append' for 'my:resource:uri.3'."
    )


@given(order=st.permutations(sorted(GRANTS.items())))
def test_the_order_in_the_recap_does_not_matter(order: list[tuple[str, dict[str, list[object]]]]) -> None:
    shuffled = {"att": {resource: dict(reversed(abilities.items())) for resource, abilities in order}}
    assert recap.statement_of(recap.parse(uri_of(shuffled))) == recap.statement_of(
        recap.parse(uri_of(EIP_5573_EXAMPLE))
    )


def test_a_recap_may_allow_nothing() -> None:
    assert recap.statement_of(Recap(att={})) == recap.statement_of(Recap(att={"uri:1": {}})) == SENTENCE


@pytest.mark.parametrize(
    "flawed",
    [
        {},
        [],
        {"att": None},
        {"att": {"no-uri": {}}},
        {"att": {"uri:1": {"ability": []}}},
        {"att": {"uri:1": {"a/b/c": []}}},
        {"att": {"uri:1": {"a/b!": []}}},
        {"att": {"uri:1": {"a/b'\n": []}}},
        {"att": {"uri:1": {"a/b": {}}}},
        {"att": {"uri:1": {"a/b": ["c"]}}},
    ],
)
def test_what_is_no_recap_is_refused(flawed: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        recap.parse(uri_of(flawed))


@given(text=st.text() | st.binary().map(base64url.encode))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"validation error|base64"):
        recap.parse(recap.PREFIX + text)
