"""Rounds of many prompts pooled: against Fisher's exact test for one table, and by counting for two."""

from __future__ import annotations

from itertools import combinations

import pytest
from scipy.stats import fisher_exact, hypergeom

from servegate.stats.pooled import MOST_EXACT, Kept, _mass, _variance, stratified_one_sided


@pytest.mark.parametrize("table", [Kept(4, 4, 0, 4), Kept(2, 4, 0, 4), Kept(3, 4, 1, 2), Kept(1, 4, 3, 4)])
def test_one_table_is_fishers_exact_test(table: Kept) -> None:
    rows = [
        [table.candidate, table.candidate_of - table.candidate],
        [table.baseline, table.baseline_of - table.baseline],
    ]
    assert stratified_one_sided([table]) == pytest.approx(fisher_exact(rows, alternative="less").pvalue)


def test_several_tables_by_counting_every_way_to_deal_the_rounds() -> None:
    tables = [Kept(2, 4, 0, 4), Kept(2, 2, 1, 2)]
    ways = [sum(i < 2 for i in dealt) for dealt in combinations(range(8), 4)]  # rounds 0 and 1 kept it
    other = [sum(i < 3 for i in dealt) for dealt in combinations(range(4), 2)]
    low = sum(a + b <= 1 for a in ways for b in other)
    assert stratified_one_sided(tables) == pytest.approx(low / (len(ways) * len(other)))


def test_the_mass_of_one_table_is_scipys_hypergeometric() -> None:
    for rounds, total, draws in [(8, 3, 4), (8, 7, 4), (12, 5, 2), (16, 8, 8), (40, 39, 13)]:
        expected = hypergeom(rounds, total, draws)
        assert _mass(rounds, total, draws) == pytest.approx(expected.pmf(range(min(total, draws) + 1)), abs=1e-12)
        assert _variance(rounds, total, draws) == pytest.approx(expected.var())


def test_what_is_no_evidence_is_left_out() -> None:
    assert stratified_one_sided([]) == 1.0
    assert stratified_one_sided([Kept(4, 4, 4, 4), Kept(0, 4, 0, 4), Kept(2, 4, 0, 0)]) == 1.0


def test_many_tables_are_as_good_as_exact() -> None:
    few, many = [Kept(2, 4, 1, 4)] * MOST_EXACT, [Kept(2, 4, 1, 4)] * (MOST_EXACT + 1)
    assert max(stratified_one_sided(many), stratified_one_sided(few)) < 1e-9
    fair = [Kept(1, 4, 2, 4), Kept(2, 4, 1, 4)] * MOST_EXACT
    assert stratified_one_sided(fair) == pytest.approx(0.5, abs=0.02)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        stratified_one_sided([Kept(5, 4, 0, 4)])
