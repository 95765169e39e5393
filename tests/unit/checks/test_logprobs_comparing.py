"""Comparing: pairing by id, hash and row, what is left out, the recorded H200 figures, noise, own traffic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from servegate.checks.logprobs import CHECK
from servegate.checks.logprobs.comparing import Between
from servegate.checks.logprobs.contrast import Contrast
from servegate.checks.logprobs.measuring import _Rows
from servegate.checks.logprobs.model_size import parameters_of
from servegate.checks.logprobs.record import LogprobsMeasurement
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison
from servegate.domain.workload import PromptScore
from tests.unit.checks import logprobs_samples as samples
from tests.unit.checks.logprobs_samples import arm, evidence, many, score


def compared(left: LogprobsMeasurement, right: LogprobsMeasurement) -> Comparison:
    found = CHECK.compare(evidence(left, right), LogprobsSettings())
    assert isinstance(found, Comparison)
    return found


def between(left: LogprobsMeasurement, right: LogprobsMeasurement) -> Between:
    return Between.model_validate(compared(left, right).candidate)


def test_the_recorded_change_from_bf16_to_fp8_on_an_h200() -> None:
    found = compared(samples.recorded("bf16"), samples.recorded("fp8_per_channel"))
    assert found.n == 1022
    assert round(100 * found.estimates["same_top"].value, 2) == 92.95
    assert round(100 * found.estimates["rms_delta_p"].value, 2) == 3.39
    assert round(found.estimates["ppl_ratio"].value, 4) == 1.0266
    assert found.candidate["clusters"] == 2
    assert found.noise is None
    assert found.noise_reason == "each arm scored the text only once, so there is no noise to show"


def test_a_worked_example() -> None:
    left = arm([{"a": score([-1.0, -2.0]), "b": score([-0.5, -0.5])}])
    right = arm([{"a": score([-1.5, -2.0], tops=[1, 9]), "b": score([-0.5, -0.25])}])
    found = between(left, right)
    assert found.positions == 4
    assert found.ppl_ratio is not None
    assert found.ppl_ratio.value == pytest.approx(math.exp((0.5 + 0 + 0 - 0.25) / 4))
    moved = [math.exp(-1.5) - math.exp(-1), 0.0, 0.0, math.exp(-0.25) - math.exp(-0.5)]
    assert found.rms_delta_p is not None
    assert found.rms_delta_p.value == pytest.approx(math.sqrt(sum(one**2 for one in moved) / 4), rel=1e-6)
    assert found.same_top is not None
    assert found.same_top.value == 0.75
    assert found.delta_p["minimum"] == pytest.approx(min(moved), rel=1e-6)
    assert found.delta_p["50"] == 0.0
    # residual sums of the two clusters: 0.5 - 2 m and -0.25 - 2 m with m = 0.0625
    se = math.sqrt(2 * (0.375**2 + 0.375**2)) / 4
    assert found.ppl_ratio.high == pytest.approx(math.exp(0.0625 + 6.313752 * se), rel=1e-5)


def test_windows_are_paired_by_id_and_not_by_place() -> None:
    left = arm([{"a": score([-1.0, -2.0]), "b": score([-3.0, -4.0])}])
    turned = arm([{"b": score([-3.0, -4.0]), "a": score([-1.0, -2.0])}])
    found = between(left, turned)
    assert found.equal == found.positions == 4


def test_d2_a_window_that_one_arm_lost_is_counted_and_not_shortened() -> None:
    lost = PromptScore.nothing("b", ItemStatus.FAILED, "4 positions were scored of 5 tokens", 1)
    left = arm([{"a": score([-1.0] * 4), "b": score([-1.0] * 4)}])
    found = between(left, arm([{"a": score([-1.0] * 4), "b": lost}]))
    assert (found.positions, found.unscored, found.arms.failed) == (4, 1, (0, 1))


def test_windows_without_partner_or_with_other_ids_are_unpaired() -> None:
    left = arm([{"a": score([-1.0]), "b": score([-1.0])}])
    assert compared(left, arm([{"a": score([-1.0]), "c": score([-1.0])}])).unpaired.model_dump() == {
        "baseline_only": 1, "candidate_only": 1, "hash_differs": 0,
    }  # fmt: skip
    other = compared(left, arm([{"a": score([-1.0]), "b": score([-1.0])}], first_id=7))
    assert (other.unpaired.hash_differs, other.n) == (2, 0)


def test_stored_ids_that_contradict_the_hash_are_not_paired() -> None:
    left, right = (arm([{"a": score([-1.0, -1.0])}]) for _ in range(2))
    right.columns["token_id"][1] += 1
    assert compared(left, right).unpaired.hash_differs == 1


def test_d3_a_clamped_number_is_left_out_and_does_not_blow_up_perplexity() -> None:
    left = arm([{"a": score([-0.1, -0.2, -3.0]), "b": score([-1.0])}])
    right = arm([{"a": score([-0.1, -0.2, None], clamped=1), "b": score([-1.0])}])
    found = between(left, right)
    assert (found.positions, found.lost, found.lost_right_only, found.arms.clamped) == (3, 1, 1, (0, 1))
    assert found.ppl_ratio is not None
    assert found.ppl_ratio.value == 1.0


def test_d1_an_arm_that_differs_from_itself_shows_a_floor() -> None:
    steady = {"a": score([-0.5, -0.9, -1.2]), "b": score([-1.0])}
    cached = {"a": score([-0.5, -0.9, 0.0]), "b": score([-1.0])}
    found = compared(arm([steady, cached]), arm([steady, steady]))
    assert found.noise is not None
    own, quiet = (Contrast.model_validate(side) for side in (found.noise.baseline, found.noise.candidate))
    assert own.rms_delta_p is not None
    assert own.rms_delta_p.value > 0.3
    assert quiet.rms_delta_p is not None
    assert quiet.rms_delta_p.value == 0.0


def test_rounds_pair_with_their_own_number_and_n_counts_a_position_once() -> None:
    found = compared(many(windows=3, tokens=10, rounds=3), many(windows=3, tokens=10, rounds=3))
    assert found.n == 30
    assert found.candidate["positions"] == 90
    assert found.noise is not None
    assert found.noise.baseline is not None
    assert found.noise.baseline["positions"] == 30  # rounds 0 and 1; the third has no partner


def test_one_window_has_no_interval_but_a_value() -> None:
    found = compared(arm([{"a": score([-1.0, -2.0])}]), arm([{"a": score([-1.1, -2.0])}]))
    estimate = found.estimates["ppl_ratio"]
    assert (estimate.low, estimate.high) == (None, None)
    assert estimate.reason == "an interval needs at least two windows"


def test_documents_are_the_clusters_when_there_are_enough() -> None:
    windows = {f"d{n % 30}.{n}": score([-1.0, -2.0]) for n in range(60)}
    assert between(arm([windows]), arm([windows])).clusters == 30
    assert between(arm([windows]), arm([windows])).cluster_unit == "document"
    fewer = {f"d{n % 29}.{n}": score([-1.0, -2.0]) for n in range(60)}
    assert between(arm([fewer]), arm([fewer])).clusters == 60


def test_position_buckets_find_a_fault_of_the_later_positions() -> None:
    fine = np.full(3000, -1.0)
    late = np.where(np.arange(3000) >= 2048, -1.5, -1.0)
    found = between(arm([{"a": score(fine), "b": score(fine)}]), arm([{"a": score(late), "b": score(late)}]))
    assert [(one.first, one.last, one.positions) for one in found.buckets] == [
        (0, 512, 1022), (512, 2048, 3072), (2048, 8192, 1906),
    ]  # fmt: skip
    assert [round(one.ppl_ratio.value, 3) for one in found.buckets][:2] == [1.0, 1.0]
    assert found.buckets[2].ppl_ratio.value > 1.6
    assert found.buckets[2].rms_delta_p_interval is not None
    assert found.slope is not None
    assert (found.slope.low or 0) > 0


def test_no_top_token_means_no_share_and_a_reason() -> None:
    rows = _Rows(0)
    none = score([-1.0, -1.0], top_id=np.zeros((3, 0), dtype=np.int32), top_logprob=np.zeros((3, 0), dtype=np.float32))
    window = arm([{"a": score([-1.0, -1.0])}]).windows[0]
    record = rows.add((0, 1, 2), none)
    single = LogprobsMeasurement(windows=(window.model_copy(update=record),), top_k=0, columns=rows.columns())
    found = between(single, single)
    assert found.same_top is None
    assert found.same_top_reason == "no top token was asked for (top_k: 0)"
    assert found.bounds is None
    assert "top_k of at least 2" in str(found.bounds_reason)


def test_own_traffic_is_measured_on_the_answers_alone() -> None:
    def side(shift: float) -> LogprobsMeasurement:
        rows = _Rows(1)
        drawn = [samples.sample(f"s{n}", [-9.0, *[-1.0 + shift] * 5], scoring, rows) for scoring in (0, 1) for n in range(3)]
        base = arm([{"a": score([-1.0])}])
        moved = tuple(one.model_copy(update={"first_row": one.first_row + 2}) for one in drawn)
        columns = {name: np.concatenate([base.columns[name], column]) for name, column in rows.columns().items()}
        return LogprobsMeasurement(windows=base.windows, samples=moved, top_k=1, columns=columns)

    found = compared(side(0.0), side(-0.1))
    own = Between.model_validate(found.candidate).own
    assert own is not None
    assert (own.samples, own.tokens) == (3, 15)  # the prompt's two tokens are not counted
    assert own.kl.value == pytest.approx(math.expm1(-0.1) + 0.1, rel=1e-5)
    assert own.largest_ratio == pytest.approx(math.exp(-0.1), rel=1e-5)
    assert found.estimates["own_traffic_kl"].n == 15
    assert found.noise is None  # windows were scored once


def test_top_bounds_use_the_texts_own_token_as_well() -> None:
    def two(own: float) -> LogprobsMeasurement:
        rows = _Rows(2)
        ids = np.array([[-1, -1], [5, 6], [5, 6]], dtype=np.int32)
        logprobs = np.log(np.array([[1, 1], [0.5, 0.2], [0.5, 0.2]], dtype=np.float32))
        one = score([own, own], top_id=ids, top_logprob=logprobs)
        window = arm([{"a": score([-1.0, -1.0])}]).windows[0]
        return LogprobsMeasurement(
            windows=(window.model_copy(update=rows.add((0, 1, 2), one)),), top_k=2, columns=rows.columns()
        )

    found = between(two(math.log(0.2)), two(math.log(0.1)))
    assert found.bounds is not None
    assert found.bounds.unseen == pytest.approx(0.1, abs=1e-6)
    assert found.bounds.kl_at_least.value == pytest.approx(0.2 * math.log(2) + 0.1 * math.log(0.5), abs=1e-6)
    assert found.bounds.tv_at_least.value == pytest.approx(0.1, abs=1e-6)
    assert found.bounds.tv_at_most.value == pytest.approx(0.2, abs=1e-6)


def test_a_window_clustered_interval_covers_in_whole_comparisons() -> None:
    """The truth is a ratio of one; each window has its own shift. 90 % intervals, 60 comparisons."""
    hits = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        base = {f"w{n}": -1.5 - rng.exponential(1.0, 100) for n in range(35)}
        moved = {name: array + 0.05 * rng.normal() for name, array in base.items()}
        found = compared(arm([{n: score(a) for n, a in base.items()}]), arm([{n: score(a) for n, a in moved.items()}]))
        ratio = found.estimates["ppl_ratio"]
        assert ratio.low is not None
        assert ratio.high is not None
        hits += ratio.low <= 1.0 <= ratio.high
    assert hits >= 47


@pytest.mark.parametrize(
    ("config", "millions"),
    [(samples.SMALL, 134), (samples.BIG, 8030), ({**samples.BIG, "num_experts": 8, "moe_intermediate_size": 14_336}, 47_488),
     ({"text_config": samples.SMALL, "tie_word_embeddings": True}, 134)],
)  # fmt: skip
def test_parameters_are_counted_from_the_config(config: object, millions: int) -> None:
    counted = parameters_of(config)
    assert counted is not None
    assert round(counted / 1e6) == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize("config", [None, {}, [], {"vocab_size": 1}, {**samples.BIG, "hidden_size": "4096"},
                                    {**samples.BIG, "num_attention_heads": 0},
                                    {**samples.BIG, "vocab_size": True}])  # fmt: skip
def test_an_incomplete_config_is_not_guessed_from(config: object) -> None:
    assert parameters_of(config) is None
