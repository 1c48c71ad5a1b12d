"""Which folders of a table count."""

from __future__ import annotations

from kafka_sidecar.pipeline.reconcile.folders import COMPACTED, EXPIRED, Folder, named_in, visible

HOUR = "2026-01-01-18"


def test_folders_are_named_in_a_listing() -> None:
    there = [Folder(HOUR, 7), Folder(HOUR, 42, COMPACTED), Folder("2026-01-01-19", 0, EXPIRED)]
    listing = ",".join(f"s3a://bucket/x/{one.name}" for one in there)
    assert list(named_in("{" + listing + "}")) == there
    assert list(named_in("{" + listing.replace(",", "/_SUCCESS,") + "/_SUCCESS}")) == there
    assert list(named_in("{}")) == []


def test_the_newest_merged_folder_hides_all_before_it_in_its_hour() -> None:
    plain = [Folder(HOUR, batch) for batch in (1, 2, 3, 4)]
    older, newer = Folder(HOUR, 1, COMPACTED), Folder(HOUR, 3, COMPACTED)
    other = Folder("2026-01-01-19", 1)
    there = [*plain, older, newer, other]
    assert visible(there, [older, newer]) == [newer, Folder(HOUR, 4), other]
    assert visible(there, [older]) == [older, *plain[1:], other]
    assert visible(there, []) == [*plain, other]


def test_an_expired_hour_hides_what_was_compacted_up_to_the_same_batch() -> None:
    both = [Folder(HOUR, 3, COMPACTED), Folder(HOUR, 3, EXPIRED)]
    assert visible(both, both) == [both[1]]
