import pytest

from bench.markdown import inserted


def test_a_table_is_replaced_where_it_stands() -> None:
    page = "before\n| a |\n| - |\n| 1 |\n\n| a | b |\nafter\n"
    assert inserted(page, ["| a |", "| - |", "| 2 |"]) == "before\n| a |\n| - |\n| 2 |\n\n| a | b |\nafter\n"
    with pytest.raises(ValueError, match="no table begins with"):
        inserted(page, ["| c |"])
