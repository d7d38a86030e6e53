import itertools

from hypothesis import given
from hypothesis import strategies as st

from clarion.batching import by_size


@given(sizes=st.lists(st.integers(0, 30)), most_bytes=st.integers(1, 40), most=st.integers(1, 5))
def test_items_stay_in_order_and_each_batch_is_as_full_as_it_may_be(
    sizes: list[int], most_bytes: int, most: int
) -> None:
    batches = list(by_size(sizes, lambda size: size, most_bytes, most))

    assert [size for batch in batches for size in batch] == sizes
    assert all(len(batch) == 1 or sum(batch) <= most_bytes for batch in batches)
    assert all(0 < len(batch) <= most for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert len(batch) == most or sum(batch) + following[0] > most_bytes
