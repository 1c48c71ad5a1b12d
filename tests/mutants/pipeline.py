"""Faults in what Spark says of lost records, and the tests that find them; they need `make spark-install`."""

from __future__ import annotations

from mutants.copies import Mutant

TESTS = "tests/pipeline/reconcile"
MUTANTS = (
    Mutant(
        "pipeline/reconcile/coverage.py",
        "losses of the bucket in which a group was first seen are not found",
        'functions.when(column("acked") >= column("since"), functions.lit(0))',
        'functions.when(column("acked") > column("since"), functions.lit(0))',
        (f"{TESTS}/test_coverage.py::test_a_group_has_lost_what_it_passed_since_it_began",),
    ),
    Mutant(
        "pipeline/reconcile/states.py",
        "attempts without a response raise alerts",
        '(column("completeness") * 100 < target) & (column("hop") != PRODUCE)',
        '(column("completeness") * 100 < target)',
        (f"{TESTS}/test_states.py::test_attempts_without_a_response_raise_no_alert",),
    ),
)
