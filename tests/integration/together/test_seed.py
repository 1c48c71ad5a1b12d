"""Runs in which every two features are once on together, once off, and once each without the other.

Those in which most pairs are on together are run with every change, the others with `make test-all`.
"""

from __future__ import annotations

import pytest
from integration.together.covering import Run, covering, name_of, with_most_pairs
from integration.together.sites import Site

pytestmark = pytest.mark.integration
SEED = 341  # of many that were tried the one with the fewest runs
QUICK = 5  # with four of five pairs
RUNS = covering(2, SEED)
CORE = with_most_pairs(RUNS, QUICK)


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=[] if run in CORE else pytest.mark.slow, id=name_of(run)) for run in RUNS]
)
def test_all_clients_get_what_the_model_says(site: Site, run: Run) -> None:
    site.outcome(run)
