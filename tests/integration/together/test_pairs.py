"""Every two features, and each alone: the table "Features together" of docs/compatibility.md."""

from __future__ import annotations

import pytest
from integration.together.covering import Run, name_of, pairs, singles
from integration.together.sites import Site

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("run", [*singles(), *pairs()], ids=name_of)
def test_two_features_do_not_change_what_the_other_does(site: Site, run: Run) -> None:
    site.outcome(run)
