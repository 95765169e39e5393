"""Long prompts with a pass key: written to fit, read strictly, judged where the baseline can do it, on when it matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from servegate.checks.contract import ArmEvidence, Change, Choice, Evidence, MeasureContext
from servegate.checks.retrieval import CHECK
from servegate.checks.retrieval.preparing import prepare
from servegate.checks.retrieval.record import LongPrompt, RetrievalInputs
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.retrieval.texts import SENTENCES, key_of, states, text_of
from servegate.domain.evidence import EngineFacts, ItemStatus
from servegate.domain.judgement import Comparison, Severity
from servegate.domain.plan import Knob, ModelSource
from servegate.domain.workload import ChatPrompt, Completion, CompletionRequest, Rendered
from servegate.errors import MeasurementError, UsageError
from servegate.ports import Advance, Probes
from tests.unit.checks.retrieval_samples import COUNT, inputs, judged, measurement, right
from tests.unit.samples import arm, engine_facts


@dataclass
class Engine:
    """Renders a word to a token (a long word to two), after a head of 30 tokens; keeps what it was asked."""

    sent: list[CompletionRequest] = field(default_factory=list)
    lose: str = ""

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        return tuple(Rendered(id=one.id, token_ids=self.ids(str(one.messages[0]["content"]))) for one in prompts)

    def ids(self, text: str) -> tuple[int, ...]:
        return (7,) * 30 + tuple(len(word) for word in text.split() for _ in range(1 + (len(word) > 6)))

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        self.sent += requests
        return tuple(Completion(id=one.id, status=ItemStatus.OK, text="12345") for one in requests if one.id != self.lose)


def probes(engine: Engine) -> Probes:
    return Probes(completions=engine, load_generator=None, evaluator=None)  # type: ignore[arg-type]


def prepared(engine: Engine, facts: EngineFacts | None = None, **settings: object) -> RetrievalInputs:
    made = prepare(probes(engine), RetrievalSettings.model_validate(settings), RetrievalInputs(), facts or engine_facts())
    assert isinstance(made, RetrievalInputs)
    return made


# -- texts ---------------------------------------------------------------------------------------------------------------


def test_a_seed_always_writes_the_same_text_and_another_seed_another_one() -> None:
    assert text_of("0-25-1", 50, 0.5) == text_of("0-25-1", 50, 0.5)
    assert text_of("0-25-1", 50, 0.5) != text_of("1-25-1", 50, 0.5)
    assert key_of("0-25-1") == "64514"  # fixed: another Python or machine must not write other prompts


def test_the_fact_stands_where_it_should_and_nothing_else_holds_a_digit() -> None:
    text, key = text_of("s", 100, 0.5), key_of("s")
    assert text.count(key) == 2
    assert 0.4 < text.index(key) / len(text) < 0.6
    assert not any(char.isdigit() for char in text.replace(key, "") + "".join(SENTENCES))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("The pass key is 48213.", True),
        ("48213", True),
        ("It is 48213, not 11111.", True),
        ("It is 11111, not 48213.", False),
        ("148213", False),
        ("482130", False),
        ("48 213", False),
        ("", False),
        ("I do not know.", False),
        ("<think>The key 48213 is", None),
        ("<think>Is it 11111? No.</think>48213", True),
        ("٤٨٢١٣", False),
    ],
)
def test_the_first_number_of_an_answer_decides(said: str, expected: bool | None) -> None:
    assert states("48213", said) is expected


# -- preparing -----------------------------------------------------------------------------------------------------------


def test_prompts_fill_their_share_of_the_context_and_leave_room_for_the_answer() -> None:
    made = prepared(Engine())
    assert made.context_tokens == 2048
    for depth in (25, 50, 90):
        own = [prompt for prompt in made.prompts if prompt.depth_percent == depth]
        most = 2048 * depth // 100 - 24
        assert len(own) == 20
        assert all(most - 60 < len(prompt.token_ids) <= most for prompt in own)
        assert [prompt.place for prompt in own] == pytest.approx([(number + 0.5) / 20 for number in range(20)])
    assert len({prompt.key for prompt in made.prompts}) > 55
    assert all(prompt.token_ids == Engine().ids(prompt.text) for prompt in made.prompts)  # the ids are those of this text


def test_preparing_twice_writes_the_same_prompts() -> None:
    assert prepared(Engine()) == prepared(Engine())


def test_the_cap_takes_prompts_from_every_depth_and_keeps_their_lengths() -> None:
    made = prepared(Engine(), max_prompt_tokens=10_000)
    assert sum(len(prompt.token_ids) for prompt in made.prompts) <= 10_000
    assert [sum(prompt.depth_percent == depth for prompt in made.prompts) for depth in (25, 50, 90)] == [3, 3, 3]
    assert made.wanted_per_depth == 20


@pytest.mark.parametrize("settings", [{"max_prompt_tokens": 100}, {"depths_percent": (1,)}, {"context_tokens": 64}])
def test_no_room_is_told_and_nothing_is_asked(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="no room for prompts"):
        prepared(Engine(), **settings)


def test_a_context_that_nobody_states_is_told() -> None:
    with pytest.raises(MeasurementError, match="how long its context is"):
        prepared(Engine(), engine_facts(max_model_len=None, max_model_len_reason="not in the log"))
    assert prepared(Engine(), engine_facts(max_model_len=None), context_tokens=2048).prompts


# -- measuring -----------------------------------------------------------------------------------------------------------


def test_both_rounds_send_the_recorded_ids_greedily_under_a_salt_of_their_own() -> None:
    engine = Engine()
    made = prepared(engine)
    assert CHECK.measure is not None
    for step in range(2):
        context = MeasureContext("baseline", step, engine_facts(), made, None, lambda _done: None)
        measured = CHECK.measure(probes(engine), RetrievalSettings(), context)
        assert [one.prompt_id for one in measured.answers] == [prompt.id for prompt in made.prompts]
    assert {request.temperature for request in engine.sent} == {0.0}
    assert len({request.cache_salt for request in engine.sent}) == 2
    ids = {prompt.id: prompt.token_ids for prompt in made.prompts}
    assert all(request.token_ids == ids[request.id] for request in engine.sent)


def test_an_answer_that_the_probe_lost_is_an_error() -> None:
    engine = Engine(lose="d25-00")
    context = MeasureContext("baseline", 0, engine_facts(), prepared(engine), None, lambda _done: None)
    assert CHECK.measure is not None
    with pytest.raises(MeasurementError, match="59 answers"):
        CHECK.measure(probes(engine), RetrievalSettings(), context)


# -- judging -------------------------------------------------------------------------------------------------------------


def wrong_at(depth: int, numbers: Sequence[int], rounds: Sequence[int] = (0, 1)):  # type: ignore[no-untyped-def]
    names = {f"d{depth}-{number:02}" for number in numbers}
    return lambda prompt, number: "99999x" if prompt.id in names and number in rounds else right(prompt, number)


def test_one_key_that_is_lost_in_every_round_fails_and_is_named() -> None:
    _, found = judged(right, wrong_at(90, [6]))
    assert found["key-lost"].severity is Severity.FAIL
    assert found["key-lost"].evidence[0].id == "d90-06"
    assert (found["key-lost"].value, found["key-lost"].limit) == (1.0, 0.0)
    _, tolerated = judged(right, wrong_at(90, [6]), limits={"lost_keys": 1})
    assert tolerated["key-lost"].severity is Severity.INFO
    assert tolerated["fewer-keys"].severity is Severity.REVIEW  # tolerated is not proven harmless


def test_a_key_that_is_lost_in_one_round_is_a_review() -> None:
    _, found = judged(right, wrong_at(50, [3], rounds=(1,)))
    assert {code: item.severity for code, item in found.items()} == {
        "fewer-keys": Severity.REVIEW,
        "key-unstable": Severity.REVIEW,
    }


def test_a_depth_that_the_baseline_cannot_do_is_no_pass_and_no_break() -> None:
    lost = wrong_at(90, range(COUNT))
    comparison, found = judged(lost, lost)
    assert {code: item.severity for code, item in found.items()} == {"depth-not-judged": Severity.REVIEW}
    assert "not judged at 90 % of the context: the baseline stated 0% of its keys itself" in found["depth-not-judged"].message
    assert comparison.n == 3 * COUNT


def test_a_weak_baseline_makes_single_keys_a_lottery_but_a_collapse_fails() -> None:
    _, noise = judged(wrong_at(90, [0, 1, 2]), wrong_at(90, [0, 1, 3]))
    assert {code: item.severity for code, item in noise.items()} == {"depth-not-judged": Severity.REVIEW}
    _, collapse = judged(wrong_at(90, [0, 1, 2]), wrong_at(90, range(COUNT)))
    assert collapse["keys-lost"].severity is Severity.FAIL


def test_too_few_prompts_are_no_pass() -> None:
    _, found = judged(right, right, count=4)
    assert {code: item.severity for code, item in found.items()} == {"few-prompts": Severity.REVIEW}


def test_answers_that_failed_are_no_evidence_and_no_pass() -> None:
    def failed(prompt: LongPrompt, number: int) -> str | dict[str, object]:
        gone = prompt.depth_percent == 90
        return {"status": ItemStatus.FAILED, "error": "HTTP 400: too long"} if gone else right(prompt, number)

    comparison, found = judged(right, failed)
    assert found.keys() == {"not-answered", "few-prompts"}
    assert comparison.n == 2 * COUNT


def test_an_answer_without_a_number_is_a_lost_key_though_it_was_cut() -> None:
    _, found = judged(right, lambda _prompt, _number: {"status": ItemStatus.TRUNCATED, "text": "the the the the"})
    assert found["key-lost"].severity is Severity.FAIL


def test_what_one_arm_lacks_or_was_asked_otherwise_is_no_pass() -> None:
    other = judged(right, lambda p, n: {"text": right(p, n), "sampling_sha256": "another"} if p.id == "d25-00" else right(p, n))
    assert other[0].unpaired.hash_differs == 2
    assert other[1].keys() == {"unpaired"}
    assert judged(right, right, rounds=1)[0].noise is None


def test_prompts_are_paired_by_id_and_not_by_place() -> None:
    comparison, found = judged(right, right)
    assert [item["prompt_id"] for item in comparison.items] == [prompt.id for prompt in inputs().prompts]
    assert found == {}


# -- choosing ------------------------------------------------------------------------------------------------------------


def change(knob: str = "max-num-seqs", lengths: tuple[object, object] = (None, None), kv: object = None) -> Change:
    options = [{} if length is None else {"max-model-len": length} for length in lengths]
    arms = {"baseline": arm("baseline", **options[0]), "candidate": arm("candidate", **options[1])}
    plain = ModelSource(source="m", revision=None, config={"quantization_config": {"kv_cache_scheme": None}})
    other = plain.model_copy(update={"config": {"quantization_config": {"kv_cache_scheme": kv}}})
    knobs = (Knob(name=knob, baseline=None, candidate="x", source="serving config"),)
    return Change(knobs, arms, {"baseline": plain, "candidate": other})


@pytest.mark.parametrize("knob", ["kv-cache-dtype", "attention-backend", "max-model-len", "environment.VLLM_ATTENTION_BACKEND"])
def test_it_turns_itself_on_when_the_change_can_harm_long_prompts(knob: str) -> None:
    assert CHECK.choose is not None
    choice = CHECK.choose(RetrievalSettings(), False, change(knob))
    assert choice.settings == RetrievalSettings()
    assert choice.note == f"retrieval is on, since {knob} differs between the arms"
    assert CHECK.choose(RetrievalSettings(when="changed"), True, change(knob)).settings is not None


def test_it_is_off_for_other_changes_unless_it_is_configured() -> None:
    assert CHECK.choose is not None
    assert CHECK.choose(RetrievalSettings(), False, change()).settings is None
    assert CHECK.choose(RetrievalSettings(when="changed"), True, change()).settings is None
    assert CHECK.choose(RetrievalSettings(), True, change()).settings == RetrievalSettings()


def test_turned_off_by_hand_it_says_what_is_then_not_seen() -> None:
    assert CHECK.choose is not None
    choice = CHECK.choose(RetrievalSettings(when="never"), True, change("kv-cache-dtype"))
    assert choice.settings is None
    assert "although kv-cache-dtype differs" in choice.note


def test_a_checkpoint_that_brings_another_kv_cache_counts_as_a_change_of_it() -> None:
    assert CHECK.choose is not None
    choice = CHECK.choose(RetrievalSettings(), False, change("model", kv={"num_bits": 8}))
    assert choice.settings is not None
    assert "kv_cache_scheme" in choice.note


def of_checkpoints(baseline: object, candidate: object) -> Choice:
    assert CHECK.choose is not None
    models = {
        name: ModelSource(source=name, revision=None, config=config)
        for name, config in (("baseline", baseline), ("candidate", candidate))
    }
    arms = {name: arm(name) for name in ("baseline", "candidate")}
    return CHECK.choose(RetrievalSettings(), False, Change((), arms, models))


THETA = {"rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"}}


@pytest.mark.parametrize(
    ("baseline", "candidate", "said"),
    [
        (THETA, {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}, "rope setting"),
        ({"rope_theta": 1e4}, {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope setting"),
        ({"text_config": {"rope_theta": 1e4}}, {"text_config": {"rope_theta": 1e6}}, "rope setting"),
        ({}, {"sliding_window": 512, "layer_types": ["sliding_attention"] * 2}, "attention window"),
        ({"max_position_embeddings": 8192}, {"max_position_embeddings": 2048}, "max_position_embeddings"),
    ],
)
def test_a_checkpoint_that_places_or_keeps_tokens_differently_turns_it_on(
    baseline: dict[str, object], candidate: dict[str, object], said: str
) -> None:
    """A `rope_theta` or a window that got lost on the way to a quantized checkpoint harms only what is far away."""
    choice = of_checkpoints(baseline, candidate)
    assert choice.note == f"retrieval is on, since the checkpoints' {said} differs between the arms"
    assert choice.settings is not None


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ({"rope_theta": 100000}, THETA),
        ({"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 4}},
         {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0}}),
        ({"use_sliding_window": False, "sliding_window": 4096}, {"layer_types": ["full_attention"] * 2}),
        ({"max_window_layers": 28}, {"layer_types": ["full_attention"] * 2}),
        (THETA, None),
        ({"layer_types": [[]], "rope_scaling": 3, "text_config": "x"}, {"layer_types": [[]], "rope_parameters": []}),
    ],
)  # fmt: skip
def test_another_spelling_of_the_same_or_an_unread_config_does_not(baseline: object, candidate: object) -> None:
    choice = of_checkpoints(baseline, candidate)
    assert (choice.settings, choice.note) == (None, "")


def test_the_shorter_length_of_the_arms_is_filled() -> None:
    assert CHECK.choose is not None
    choice = CHECK.choose(RetrievalSettings(), False, change("max-model-len", (8192, 4096)))
    assert isinstance(choice.settings, RetrievalSettings)
    assert choice.settings.context_tokens == 4096
    for other, expected in (("4k", 4000), ("4K", 4096), (-1, 8192), ("auto", 8192), (None, 8192), ("0.5k", 8192)):
        mixed = CHECK.choose(RetrievalSettings(), False, change("max-model-len", (8192, other))).settings
        assert isinstance(mixed, RetrievalSettings)
        assert mixed.context_tokens == expected
    kept = CHECK.choose(RetrievalSettings(context_tokens=1024), True, change("max-model-len", (8192, 4096))).settings
    assert isinstance(kept, RetrievalSettings)
    assert kept.context_tokens == 1024


@pytest.mark.parametrize(
    ("served", "told"), [((100, 100), False), ((180, 400), False), ((200, 181), True), ((32_768, 32_768), True)]
)
def test_keys_of_short_prompts_say_nothing_about_a_long_context(served: tuple[int, int], told: bool) -> None:
    """`context_tokens: 100` of a served 32,768 would turn the check on, and look at none of what it is for."""
    facts = [engine_facts(role, max_model_len=length) for role, length in zip(("baseline", "candidate"), served, strict=True)]
    sides = [ArmEvidence(one, None, measurement()) for one in facts]
    comparison = CHECK.compare(Evidence(sides[0], sides[1], inputs()), RetrievalSettings())
    assert isinstance(comparison, Comparison)
    codes = {item.code: item.severity for item in CHECK.judge(comparison, RetrievalSettings())}
    assert codes == ({"retrieval/context-not-filled": Severity.REVIEW} if told else {})


def test_where_no_engine_says_how_long_its_context_is_nobody_knows_whether_it_was_filled() -> None:
    facts = [engine_facts(role, max_model_len=None) for role in ("baseline", "candidate")]
    sides = [ArmEvidence(one, None, measurement()) for one in facts]
    comparison = CHECK.compare(Evidence(sides[0], sides[1], inputs()), RetrievalSettings())
    assert isinstance(comparison, Comparison)
    codes = {item.code: item.severity for item in CHECK.judge(comparison, RetrievalSettings())}
    assert codes == {"retrieval/context-unknown": Severity.REVIEW}
