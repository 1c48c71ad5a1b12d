"""Faults in the audit, and the tests that find them."""

from __future__ import annotations

from mutants.copies import Mutant

TESTS = "tests/audit/test_event_auditor.py"
MUTANTS = (
    Mutant(
        "audit/event_counters.py",
        "a commit of the same offset is an advance, of a range that ends before it begins",
        "if before is not None and offset > before:",
        "if before is not None and offset >= before:",
        (f"{TESTS}::test_a_commit_of_the_same_offset_is_no_advance",),
    ),
    Mutant(
        "audit/contract.py",
        "a topic that is created again is the same one",
        "if isinstance(other, TopicName) and other.topic_id != self.topic_id:",
        "if False:",
        (f"{TESTS}::test_a_topic_that_is_created_again_has_events_of_its_own",),
    ),
)
