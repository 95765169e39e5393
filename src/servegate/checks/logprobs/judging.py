"""The policy for logprobs: validity first, then the perplexity ratio.

PASS: with 95 % confidence the ratio is below `ppl_ratio_pass`, on enough windows and tokens, every window paired and every
token with a usable number. FAIL: with 95 % confidence it is above `ppl_ratio_fail`. The rest is for a person. Top tokens,
changes in probability, KL and total variation inform and never block. A model that is
small, or of unknown size, only gets information, whatever its numbers are.
"""

from __future__ import annotations

from servegate.checks.contract import finding
from servegate.checks.logprobs.comparing import Between
from servegate.checks.logprobs.contrast import Contrast
from servegate.checks.logprobs.settings import Limits, LogprobsSettings
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity

CHECK_NAME = "logprobs"
FEWEST_CLUSTERS_TO_FAIL = 10
"""Below so many windows the spread between them is too poorly known to condemn a candidate."""
LEAST_OWN_TOKENS, LEAST_OWN_SAMPLES = 8192, 64
HEAVY_SHARE, HEAVY_RATIO = 0.5, 100.0
"""Own-traffic KL hangs on few tokens when 1 % of them make up half of it, or one is so many times likelier in the candidate."""
MOST_ZEROS = 0.5
"""Tokens that a model is wholly sure of have a logprob of 0; of more than half of a text it is a buffer that nobody filled."""
LEAST_RATIO = 0.9
"""A change of the serving config teaches a model nothing: a perplexity that is lower than this comes of other numbers."""
MOST_REFS = 20
ENOUGH_EQUAL = 1000


def judge(comparison: Comparison, settings: LogprobsSettings) -> tuple[Finding, ...]:
    """Return what is wrong, unclear or worth knowing; none of it blocking means PASS."""
    between = Between.model_validate(comparison.candidate)
    broken = _validity(comparison, between, settings.limits)
    gaps = _gaps(comparison, between)
    if broken or not between.positions:
        return (*broken, *gaps)
    remarks = _remarks(between)
    small = _small(between, settings.limits)
    if small:
        return (*small, *_smoke(between, settings.limits), *gaps, *remarks)
    return (*_ratio(comparison, between, settings.limits), *_smoke(between, settings.limits), *gaps, *remarks)


# -- validity --------------------------------------------------------------------------------------------------


def _validity(comparison: Comparison, between: Between, limits: Limits) -> tuple[Finding, ...]:
    found: list[Finding] = []
    modes = between.arms.modes
    if modes[0] != modes[1]:
        found.append(_finding("modes-differ", Severity.NOT_COMPARABLE,
                              f"the arms report different numbers (logprobs-mode): {modes[0]!r} and {modes[1]!r}"))  # fmt: skip
    differing = comparison.unpaired.hash_differs
    if differing:
        found.append(
            _finding(
                "other-text", Severity.NOT_COMPARABLE,
                f"{differing} windows hold other token ids in the other arm (hashes differ)",
                rule="windows with different hashes", value=float(differing), operator=">", limit=0.0,
            )
        )  # fmt: skip
    for name, share in zip(("baseline", "candidate"), between.arms.zero_share, strict=True):
        if share > MOST_ZEROS:
            found.append(
                _finding(
                    f"zeros-{name}", Severity.ERROR,
                    f"INVALID: {share:.0%} of the {name}'s logprobs are exactly 0, a probability of 1: they were not computed",
                    rule=f"share of logprobs that are 0, {name}", value=share, operator=">", limit=MOST_ZEROS,
                )
            )  # fmt: skip
    noise = comparison.noise
    for name, side in (("baseline", noise.baseline), ("candidate", noise.candidate)) if noise else ():
        if side is not None:
            found += _unsteady(name, Contrast.model_validate(side), limits)
    return tuple(found)


def _unsteady(name: str, own: Contrast, limits: Limits) -> list[Finding]:
    """An arm that does not agree with itself on the same text cannot be compared with anything."""
    if own.ppl_ratio is None or own.rms_delta_p is None:
        return []
    ratio, rms = max(own.ppl_ratio.value, 1 / own.ppl_ratio.value), own.rms_delta_p.value
    cases = (
        (ratio, limits.noise_ppl_ratio, "perplexity ratio of two rounds", f"{ratio:.4f}"),
        (rms, limits.noise_rms_delta_p, "RMS change in token probability of two rounds", f"{rms:.2%}"),
    )
    return [
        _finding(
            f"unsteady-{name}", Severity.ERROR,
            f"INVALID: the {name} does not agree with itself on the same text in another order ({rule}: {shown}); a prefix "
            "cache or uninitialised logprobs do this, a change of the serving config does not",
            rule=f"{rule}, {name}", value=value, operator=">", limit=limit,
        )
        for value, limit, rule, shown in cases
        if value > limit
    ][:1]  # fmt: skip


def _gaps(comparison: Comparison, between: Between) -> tuple[Finding, ...]:
    """Evidence that is missing: each gap alone withholds PASS."""
    found: list[Finding] = []
    unpaired, arms = comparison.unpaired, between.arms
    alone = unpaired.baseline_only + unpaired.candidate_only
    if alone:
        found.append(
            _finding(
                "missing-windows", Severity.REVIEW,
                f"{alone} windows have no partner: {unpaired.baseline_only} only in the baseline, "
                f"{unpaired.candidate_only} only in the candidate",
                rule="windows without a partner", value=float(alone), operator=">", limit=0.0,
            )
        )  # fmt: skip
    if any(arms.failed):
        found.append(
            _finding(
                "failed-windows", Severity.REVIEW,
                f"windows that were not scored: {arms.failed[0]} in the baseline, {arms.failed[1]} in the candidate",
                rule="windows not scored", value=float(sum(arms.failed)), operator=">", limit=0.0,
            )
        )  # fmt: skip
    if between.lost:
        found.append(
            _finding(
                "missing-logprobs", Severity.REVIEW,
                f"{between.lost} positions are left out, since an arm gave them no usable logprob ({between.lost_right_only} "
                f"of them the candidate alone). Minus infinity: baseline {arms.clamped[0]}, candidate {arms.clamped[1]}; "
                f"missing or NaN: {arms.missing[0]} and {arms.missing[1]}",
                rule="positions without a usable logprob", value=float(between.lost), operator=">", limit=0.0,
            )
        )  # fmt: skip
    if not between.positions:
        found.append(_finding("nothing-scored", Severity.REVIEW, "no position was scored by both arms: nothing was compared"))
    return tuple(found)


# -- the ratio -------------------------------------------------------------------------------------------------


def _small(between: Between, limits: Limits) -> tuple[Finding, ...]:
    size, least = between.arms.parameters, limits.smallest_parameters
    if size is None and (between.arms.parameters_at_least or 0) < least:
        # Unknown is not large: a toy of which only the name is known would be judged by limits that do not fit it.
        return (
            _finding(
                "size-unknown", Severity.REVIEW,
                f"how large the model is is not known ({between.arms.parameters_reason}), so logprobs only inform: the limits "
                f"are made for {least / 1e6:,.0f} M parameters and more (name its config.json as `engine.model_config`)",
            ),
        )  # fmt: skip
    if size is None or size >= least:
        return ()
    return (
        _finding(
            "small-model", Severity.REVIEW,
            f"a model of {size / 1e6:,.0f} M parameters only informs here, it neither passes nor fails (the limits are made "
            f"for {limits.smallest_parameters / 1e6:,.0f} M and more)",
            rule="parameters of the model", value=float(size), operator="<", limit=float(limits.smallest_parameters),
        ),
    )  # fmt: skip


def _ratio(comparison: Comparison, between: Between, limits: Limits) -> tuple[Finding, ...]:
    ratio = between.ppl_ratio
    assert ratio is not None
    if ratio.low is None or ratio.high is None:
        return (_finding("no-interval", Severity.REVIEW, f"the perplexity ratio is {ratio.value:.4f}, without an interval: "
                         f"{ratio.reason}"),)  # fmt: skip
    if ratio.high < LEAST_RATIO:
        return (
            _finding(
                "perplexity-lower", Severity.REVIEW,
                f"perplexity fell to {ratio.value:.4f} of the baseline's (95 %: less than {ratio.high:.4f}): no change of the "
                "serving config makes a model that much better at a text, so one of the arms reports other numbers",
                rule="upper 95 % of the perplexity ratio", value=ratio.high, operator="<", limit=LEAST_RATIO,
            ),
        )  # fmt: skip
    if ratio.high < limits.ppl_ratio_pass:
        return ()
    worst = tuple(EvidenceRef(check=CHECK_NAME, id=str(item["id"])) for item in comparison.items[:MOST_REFS])
    if ratio.low > limits.ppl_ratio_fail and between.clusters >= FEWEST_CLUSTERS_TO_FAIL:
        return (
            _finding(
                "perplexity", Severity.FAIL,
                f"perplexity rose by a factor of {ratio.value:.4f}, with 95 % confidence by more than {ratio.low:.4f}",
                rule="lower 95 % of the perplexity ratio", value=ratio.low, operator=">", limit=limits.ppl_ratio_fail,
                evidence=worst,
            ),
        )  # fmt: skip
    advice = "more windows would narrow it" if ratio.value < limits.ppl_ratio_pass else "the loss itself is above that"
    return (
        _finding(
            "perplexity-open", Severity.REVIEW,
            f"the perplexity ratio is {ratio.value:.4f} and may be as much as {ratio.high:.4f} (PASS needs less than "
            f"{limits.ppl_ratio_pass:g}); {advice}",
            rule="upper 95 % of the perplexity ratio", value=ratio.high, operator=">=", limit=limits.ppl_ratio_pass,
            evidence=worst,
        ),
    )  # fmt: skip


def _smoke(between: Between, limits: Limits) -> tuple[Finding, ...]:
    copies = min(between.arms.copies, between.windows)
    own = 1 - copies / between.windows if between.windows else 0.0
    without = f" of its own (of {between.windows:,} windows {copies:,} repeat earlier text)" if copies else ""
    cases = (
        (int(own * between.distinct_positions), limits.smallest_tokens, "tokens"),
        (int(own * between.clusters), limits.smallest_clusters, f"{between.cluster_unit}s"),
    )
    return tuple(
        _finding(
            "smoke-test", Severity.REVIEW,
            f"smoke test: {have:,} {what}{without}, cannot PASS (PASS needs {least:,})",
            rule=f"compared {what}", value=float(have), operator="<", limit=float(least),
        )
        for have, least, what in cases
        if have < least
    )  # fmt: skip


def _remarks(between: Between) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if between.arms.serving_differs and between.equal == between.positions >= ENOUGH_EQUAL:
        found.append(_finding("all-identical", Severity.INFO,
                              f"all {between.positions:,} logprobs are equal to the last bit although the arms are served "
                              "differently: the setting may not be in effect"))  # fmt: skip
    own = between.own
    if own is not None and (own.tokens < LEAST_OWN_TOKENS or own.samples < LEAST_OWN_SAMPLES):
        found.append(_finding("own-traffic-small", Severity.INFO,
                              f"own traffic: {own.tokens:,} tokens in {own.samples} samples; rely on it from "
                              f"{LEAST_OWN_TOKENS:,} tokens in {LEAST_OWN_SAMPLES} samples on"))  # fmt: skip
    if own is not None and own.kl.value > 0 and (own.top_1_percent > HEAVY_SHARE or own.largest_ratio > HEAVY_RATIO):
        found.append(_finding("own-traffic-heavy-tail", Severity.INFO,
                              f"own traffic: 1 % of the tokens make up {own.top_1_percent:.0%} of the estimate (largest ratio "
                              f"{own.largest_ratio:,.1f}), so it may be far off"))  # fmt: skip
    slope = between.slope
    if slope is not None and slope.low is not None and slope.low > 0 and between.distinct_positions >= ENOUGH_EQUAL:
        found.append(_finding("grows-with-position", Severity.INFO,
                              f"the loss grows within a window, by {slope.value:.4f} nats for each 1,000 positions (with "
                              f"95 % confidence by more than {slope.low:.4f}), as with a fault of long contexts"))  # fmt: skip
    return tuple(found)


def _finding(code: str, severity: Severity, message: str, *, evidence: tuple[EvidenceRef, ...] = (), **rule: object) -> Finding:
    return finding(CHECK_NAME, code, severity, message, evidence=evidence, **rule)
