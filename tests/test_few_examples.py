"""Where few examples are taken, every test is, with some of its arguments."""

from __future__ import annotations

from support.examples import few_of_each

NAMES = [f"tests/a.py::test_of_both[{loop}-{at}]" for at in range(50) for loop in ("asyncio", "uvloop")]


def test_a_test_has_at_most_so_many_of_its_examples() -> None:
    assert len(few_of_each(NAMES, most=5)) == 5
    assert few_of_each(NAMES[:3], most=5) == set(NAMES[:3])


def test_no_test_is_without_an_example() -> None:
    names = [*NAMES, "tests/a.py::test_alone", "tests/b.py::test_of_both[1]"]
    taken = few_of_each(names, most=1)
    assert len(taken) == 3
    assert taken > {"tests/a.py::test_alone", "tests/b.py::test_of_both[1]"}


def test_the_same_are_chosen_in_any_order() -> None:
    assert few_of_each(reversed(NAMES), most=5) == few_of_each(NAMES, most=5)


def test_no_argument_has_all_of_them() -> None:
    """As it would if every tenth were chosen."""
    taken = few_of_each(NAMES, most=10)
    assert {name.partition("[")[2].partition("-")[0] for name in taken} == {"asyncio", "uvloop"}
