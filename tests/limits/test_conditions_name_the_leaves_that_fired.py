"""Promise: conditions compose, and the leaves that were true are named, in the order written."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Facts,
    Not,
    Used,
    as_condition,
    fired,
    leaves,
)
from pullcord.core.limits import Limits, check_condition, parsed, progress, raised
from pullcord.core.run import Run
from pullcord.errors import InvalidInput
from pullcord.limits import (
    CalledTool,
    Deadline,
    External,
    MaxSteps,
    MaxToolCalls,
    Never,
    NoOpenTools,
    Price,
    Said,
    Spent,
    Tokens,
    WorkingTime,
)

LEAVES = st.one_of(
    st.integers(0, 5).map(MaxSteps),
    st.integers(0, 5).map(MaxToolCalls),
    st.integers(0, 9).map(Tokens),
    st.sampled_from([Spent(usd=1), Spent(usd=2, lenient=True), Spent(usd=3, price=Price(1, 2))]),
    st.sampled_from([WorkingTime(1.0), Said("DONE"), CalledTool("submit"), External("enough")]),
    st.sampled_from([NoOpenTools(), Never(), Deadline(in_s=5, due_ms=5000)]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=8,
)
FACTS = st.builds(
    Facts,
    used=st.builds(
        Used,
        steps=st.integers(0, 6),
        tool_calls=st.integers(0, 6),
        tokens=st.integers(0, 10),
        usd_micros=st.integers(0, 4_000_000),
        working_ms=st.integers(0, 2000),
        unpriced=st.integers(0, 1),
    ),
    now_ms=st.integers(1, 9000),
    met=st.frozensets(st.sampled_from(["Said('DONE')", "CalledTool('submit')"])),
    open_tools=st.integers(0, 1),
)


def holds(condition: Condition, facts: Facts) -> bool:
    """What it means, told in another way."""
    match condition:
        case AllOf(of):
            return all(holds(one, facts) for one in of)
        case AnyOf(of):
            return any(holds(one, facts) for one in of)
        case Not(of):
            return not holds(of, facts)
        case _:
            return condition.holds(facts)


@given(condition=CONDITIONS, facts=FACTS)
def test_leaves_are_named_exactly_when_the_whole_is_true(
    condition: Condition, facts: Facts
) -> None:
    named = fired(condition, facts)
    assert bool(named) == holds(condition, facts)
    written = [str(condition) for condition in in_order(condition)]
    assert [name for name in dict.fromkeys(written) if name in named] == list(named)
    assert set(named) == {str(leaf) for leaf in deciding(condition, facts)}


def deciding(condition: Condition, facts: Facts) -> list[Condition]:
    """The true leaves of every branch that is true: the others have decided nothing."""
    if not holds(condition, facts):
        return []
    if not isinstance(condition, AllOf | AnyOf):
        return [condition]
    return [leaf for one in condition.of for leaf in deciding(one, facts)]


def test_a_leaf_of_a_branch_that_is_not_true_is_not_named() -> None:
    condition = (MaxSteps(50) & Tokens(10)) | MaxToolCalls(3)
    facts = Facts(Used(steps=4, tokens=100, tool_calls=3))
    assert fired(condition, facts) == ("MaxToolCalls(3)",)


def in_order(condition: Condition) -> list[Condition]:
    """The leaves, as they were written; a `~` is one."""
    match condition:
        case AllOf(of) | AnyOf(of):
            return [leaf for one in of for leaf in in_order(one)]
        case _:
            return [condition]


def test_a_or_b_and_c_names_those_that_were_true() -> None:
    condition = (MaxSteps(2) | Spent(usd=1)) & Said("DONE")
    said = frozenset({"Said('DONE')"})
    assert fired(condition, Facts(Used(steps=2))) == ()
    assert fired(condition, Facts(Used(), met=said)) == ()
    assert fired(condition, Facts(Used(steps=2), met=said)) == ("MaxSteps(2)", "Said('DONE')")
    both = Facts(Used(steps=2, usd_micros=1_000_000), met=said)
    assert fired(condition, both) == ("MaxSteps(2)", "Spent(usd=1)", "Said('DONE')")


@given(condition=CONDITIONS)
def test_a_condition_is_the_same_after_it_was_stored(condition: Condition) -> None:
    limits = Limits(condition, "wrap_up")
    assert msgspec.json.decode(msgspec.json.encode(limits), type=Limits) == limits
    assert check_condition(condition) == condition
    assert str(condition)


@given(condition=CONDITIONS, facts=FACTS)
def test_a_raised_cap_is_another_and_nothing_else_is(condition: Condition, facts: Facts) -> None:
    higher = raised(condition, {"steps": 1000})
    for before, after in zip(leaves(condition), leaves(higher), strict=True):
        assert after == (MaxSteps(1000) if isinstance(before, MaxSteps) else before)


def test_what_is_used_is_told_in_words() -> None:
    condition = MaxSteps(40) | Spent(usd=2) | WorkingTime(90)
    used = Used(steps=7, usd_micros=310_000, working_ms=12_000)
    assert progress(condition, used) == ["7 of 40 steps", "$0.31 of $2.00", "12 of 90 s of work"]
    assert "unknown price" in progress(Spent(usd=2), Used(unpriced=1))[0]


def test_a_call_of_unknown_price_ends_a_budget_in_money_unless_it_is_lenient() -> None:
    unknown = Facts(Used(unpriced=1))
    assert fired(Spent(usd=2), unknown) == ("Spent(usd=2)",)
    assert fired(Spent(usd=2, lenient=True), unknown) == ()


def some_function(run: Run) -> bool:
    return run.begun > 3


def test_a_function_is_a_condition_if_it_can_be_found_again() -> None:
    assert str(MaxSteps(3) | some_function) == "MaxSteps(3) | When(some_function)"
    assert str(some_function & MaxSteps(3)) == "When(some_function) & MaxSteps(3)"
    with pytest.raises(InvalidInput, match="at the top of a module"):
        as_condition(lambda _: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: check_condition(Spent(usd=-1)),
        lambda: check_condition(MaxSteps(-1)),
        lambda: check_condition(MaxSteps("7")),  # pyright: ignore[reportArgumentType]
        lambda: check_condition(Deadline()),
        lambda: check_condition(Deadline(in_s=1, at_ms=5)),
        lambda: check_condition(Said("")),
        lambda: bool(MaxSteps(1) and MaxSteps(2)),
        lambda: parsed(["steps"]),
        lambda: parsed(["stepps=3"]),
    ],
)
def test_what_means_nothing_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(InvalidInput):
        wrong()
