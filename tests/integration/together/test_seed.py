"""Runs in which every two features are once on together, once off, and once each without the other."""

from __future__ import annotations

import pytest
from integration.together.covering import Run, covering, name_of
from integration.together.sites import Site

pytestmark = pytest.mark.integration
SEED = 341  # of many that were tried the one with the fewest runs


@pytest.mark.parametrize("run", covering(2, SEED), ids=name_of)
def test_all_clients_get_what_the_model_says(site: Site, run: Run) -> None:
    site.outcome(run)
