import gc

from clarion.cold_start import without_collection


def test_nothing_is_collected_while_a_function_starts_and_all_it_made_is_set_apart() -> None:
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        with without_collection():
            assert not gc.isenabled()
            kept: list[list[int]] = [[] for _ in range(1_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()


def test_whoever_had_collection_off_has_it_off_afterwards() -> None:
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
