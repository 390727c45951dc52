import pytest
from hypothesis import given
from hypothesis import strategies as st

from eec.errors import UserError
from eec.memory.budget import Budget, balanced_shares, parse_budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("unlimited", Budget()),
        ("5000", Budget(slots=5000)),
        ("1", Budget(slots=1)),
        ("5MB", Budget(bytes=5_000_000)),
        ("1.5 mb", Budget(bytes=1_500_000)),
        ("500kB", Budget(bytes=500_000)),
        ("300B", Budget(bytes=300)),
        ("2GB", Budget(bytes=2_000_000_000)),
        ("4KiB", Budget(bytes=4096)),
    ],
)
def test_budgets_as_people_write_them(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget
    assert budget.unlimited == (text == "unlimited")


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "5.5", "0MB", "5 apples", "MB", "nan", "inf", "1e3", "5MB5"]
)
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UserError, match=r"memory is .*: use a number of slots such as 5000"):
        parse_budget(text)


@given(
    wanted=st.dictionaries(st.integers(0, 50), st.integers(0, 40), min_size=1, max_size=12),
    slots=st.integers(0, 300),
)
def test_shares_are_fair_and_waste_nothing(wanted: dict[int, int], slots: int) -> None:
    shares = balanced_shares(wanted, slots)
    assert shares.keys() == wanted.keys()
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)
    assert sum(shares.values()) == min(slots, sum(wanted.values()))
    # Who gets less than another, by more than the odd slot, has all it wants.
    most = max(shares.values())
    assert all(shares[name] >= most - 1 or shares[name] == wanted[name] for name in wanted)
