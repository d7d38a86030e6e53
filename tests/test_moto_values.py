"""The quicker answers are moto's own."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.core.serialize import JSONSerializer, ResponseSerializer, XFormedAttributePicker
from moto.core.utils import get_service_model

from tests import moto_values

TEXTS, NUMBERS = st.text(max_size=3), st.integers().map(str)
BYTES = st.binary(max_size=3).map(lambda read: base64.b64encode(read).decode())
PLAIN = (
    st.fixed_dictionaries({"S": TEXTS})
    | st.fixed_dictionaries({"N": NUMBERS})
    | st.fixed_dictionaries({"B": BYTES})
    | st.fixed_dictionaries({"SS": st.lists(TEXTS)})
    | st.fixed_dictionaries({"NS": st.lists(NUMBERS)})
    | st.fixed_dictionaries({"BS": st.lists(BYTES)})
    | st.fixed_dictionaries({"BOOL": st.booleans()})
    | st.fixed_dictionaries({"NULL": st.just(value=True)})
    | st.sampled_from([{}, {"S": None}, {"s": "by another spelling"}, {"unknown": "x"}])
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"M": st.dictionaries(st.sampled_from(("S", "b", "a name")), inner, max_size=3)})
    ),
    max_leaves=8,
)


def answered(rows: list[Any], structures: Any) -> Any:
    """To a query."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResponseSerializer, "_serialize_type_structure", structures)
        model = get_service_model("dynamodb").operation_model("Query")
        serializer = JSONSerializer(operation_model=model, value_picker=XFormedAttributePicker())
        return serializer.serialize({"Items": rows, "Count": len(rows)})["body"]


@given(st.lists(st.dictionaries(TEXTS.filter(bool), VALUES, max_size=3), max_size=3))
def test_an_answer_is_what_moto_makes_of_it(rows: list[Any]) -> None:
    ours = ResponseSerializer._serialize_type_structure

    assert answered(rows, ours) == answered(rows, moto_values.MOTOS)


def test_the_quicker_way_is_the_one_that_tests_go() -> None:
    assert ResponseSerializer._serialize_type_structure is not moto_values.MOTOS
