"""Runs in which every three features are on together, and off in every other way."""

from __future__ import annotations

import pytest
from integration.together.covering import Run, covering, name_of
from integration.together.sites import Site

pytestmark = pytest.mark.matrix
SEED = 1


@pytest.mark.parametrize("run", covering(3, SEED), ids=name_of)
def test_three_features_do_not_change_what_the_others_do(site: Site, run: Run) -> None:
    site.outcome(run)
