"""Guards that are never true together are found, and others are never taken for such."""

from __future__ import annotations

from itertools import product

from noetl.migration.exclusive import exclusive
from tests.parts import over


@over(
    "guards",
    [
        ("x > 5", "x <= 5"),
        ("x.y == 'a'", 'x.y == "b"', "x.y == 'c'"),
        ("a.ready", "not a.ready"),
        ("a.ready == true", "not a.ready"),
        ("x < y", "x >= y"),
        ("x > 5 and z", "x < 3 and z"),
        ("x == 'a' and y > 1", "x != 'a'"),
        ("not (x > 5)", "x > 5"),
        ("x", "x == none"),
        ("x", "x == false"),
        ("x", "x == 0"),
        ("x", "x == ''"),
        ("not x", "x == 5"),
    ],
)
def test_these_exclude_each_other(guards: tuple[str, ...]) -> None:
    assert exclusive(guards)


@over(
    "guards",
    [
        ("x > 5", "x > 7"),
        ("x > 5", "y <= 5"),
        ("x >= 5", "x <= 5"),
        ("x == 1", "x == '1' or true"),
        ("x == 'a'", "x == b"),
        ("x != 'a'", "x != 'b'"),
        ("x > 5 or z", "x <= 5"),
        ("x in y", "x not in y or z"),
        ("x == 'a'", "x == 'b'", "y"),
        ("x", "x == 5"),
        ("x", "x == true"),
        ("x", "x == 'a'"),
        ("x", "x != true"),
        ("x", "x == y"),
        ("not x", "x == 0"),
        ("not x", "x == none"),
        ("not x", "x != true"),
        ("not (x == 1 and y)", "(x == 1 and z)"),
        ("x == 'a and b'", "x != 'a and c'"),
        ("not x < 5 < y", "not x >= 5 < y"),
        ("x | random == 1", "x | random == 2"),
    ],
)
def test_these_may_be_true_together(guards: tuple[str, ...]) -> None:
    assert not exclusive(guards)


def test_no_pair_of_comparisons_that_excludes_each_other_is_ever_true_together() -> None:
    signs, values = ("==", "!=", "<", "<=", ">", ">="), (1, 2, 3)
    parts = [f"x {sign} {value}" for sign, value in product(signs, values)]
    parts += [
        "x",
        "not x",
        "not not x",
        "x == 0",
        "x == ''",
        "x == None",
        "x == False",
        "x == True",
        "x == 'a'",
    ]
    parts += [f"not x {sign} {value}" for sign, value in product(signs, values)]
    for one, other in product(parts, parts):
        if exclusive((one, other)):
            values_of_x = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, "", "a", None, True, False)
            assert not any(_holds(one, x) and _holds(other, x) for x in values_of_x), (one, other)


def _holds(guard: str, x: object) -> bool:
    try:
        return bool(eval(guard, {"x": x}))
    except TypeError:  # an order of values that have none: the guard fails
        return False
