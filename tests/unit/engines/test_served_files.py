"""Reading a model's directory, or the hub cache's snapshot of it, for what steers its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servegate.domain.arms import Arm
from servegate.domain.manifest import ServedFiles
from servegate.engines.served_files import served_files
from tests.unit.samples import arm

TOKENIZER: dict[str, Any] = {
    "truncation": None,
    "added_tokens": [{"id": 0, "content": "<end>"}, {"id": 1, "content": "<turn>"}],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 2, "}": 3}, "merges": ["a }"]},
}
COMMIT = "0123456789" * 4


def model(root: Path, **files: Any) -> Path:
    """Write a small model; a value of None leaves the file out."""
    root.mkdir(parents=True, exist_ok=True)
    whole = {
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": {"eos_token": "<end>"},
        "generation_config.json": {"eos_token_id": [0, 1], "temperature": 1.0, "transformers_version": "5"},
        "chat_template.jinja": "{{ messages }}",
        **files,
    }
    for name, content in whole.items():
        if content is not None:
            (root / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (root / "model.safetensors").write_bytes(b"0" * 64)
    return root


def serving(root: Path | str, **options: object) -> Arm:
    return arm("baseline", **{"model": str(root), **options})


def read(tmp_path: Path, options: dict[str, object] | None = None, **files: Any) -> ServedFiles:
    return served_files(serving(model(tmp_path / "m", **files), **(options or {})), {})


def test_a_directory(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.stop_ids, found.sampling_defaults, found.commit) == ((0, 1), {}, None)
    assert found.reasons == {"commit": "a directory on this machine has no commit"}
    assert all((found.vocabulary_sha256, found.tokenizer_sha256, found.chat_template_sha256, found.weights_sha256))


def test_a_tokenizer_that_was_only_saved_again_is_equal(tmp_path: Path) -> None:
    again = {**TOKENIZER, "truncation": {"max_length": 9}, "model": {**TOKENIZER["model"], "merges": [["a", "}"]]}}
    before, after = read(tmp_path / "a"), read(tmp_path / "b", **{"tokenizer.json": json.dumps(again, indent=3)})
    assert before.vocabulary_sha256 == after.vocabulary_sha256
    assert before.tokenizer_sha256 == after.tokenizer_sha256


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"model": {"vocab": {"a": 3, "}": 2}, "merges": ["a }"]}}, "vocabulary_sha256"),
        ({"post_processor": {"type": "TemplateProcessing"}}, "tokenizer_sha256"),
        ({"added_tokens": [{"id": 0, "content": "<end>"}, {"id": 1, "content": "<other>"}]}, "tokenizer_sha256"),
    ],
)
def test_another_tokenizer_differs(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    before, after = read(tmp_path / "a"), read(tmp_path / "b", **{"tokenizer.json": {**TOKENIZER, **change}})
    assert getattr(before, part) != getattr(after, part)


def test_sampling_defaults_follow_the_options(tmp_path: Path) -> None:
    own: dict[str, Any] = {"generation_config.json": {"eos_token_id": 1, "repetition_penalty": 1.3, "top_p": 1.0}}
    assert read(tmp_path, **own).sampling_defaults == {"repetition_penalty": 1.3}
    vllm = read(tmp_path, {"generation-config": "vllm"}, **own)
    assert (vllm.sampling_defaults, vllm.stop_ids) == ({}, (0, 1)), "its stop ids are read all the same"
    over = read(tmp_path, {"override-generation-config": '{"repetition_penalty": 1.0, "top_k": 20}'}, **own)
    assert over.sampling_defaults == {"top_k": 20}


def test_the_chat_template_that_users_get(tmp_path: Path) -> None:
    file = read(tmp_path / "a").chat_template_sha256
    config = {"chat_template.jinja": None, "tokenizer_config.json": {"eos_token": "<end>", "chat_template": "{{ messages }}"}}
    assert read(tmp_path / "b", **config).chat_template_sha256 == file
    assert read(tmp_path / "c", {"chat-template": "{{ messages }}"}).chat_template_sha256 == file
    assert read(tmp_path / "d", {"chat-template": "{{ other }}"}).chat_template_sha256 != file
    none = read(tmp_path / "e", **{"chat_template.jinja": None})
    assert (none.chat_template_sha256, none.reasons["chat_template"]) == (None, "the model has none")


def test_a_hub_id_is_the_commit_that_its_branch_stood_for(tmp_path: Path) -> None:
    home = tmp_path / "hub" / "models--org--m"
    model(home / "snapshots" / COMMIT)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    found = served_files(serving("org/m"), environment)
    assert (found.commit, found.stop_ids, found.reasons) == (COMMIT, (0, 1), {})
    pinned = served_files(serving("org/m", revision=COMMIT), {"HF_HUB_CACHE": str(tmp_path / "nothing")})
    assert (pinned.commit, "files" in pinned.reasons) == (COMMIT, True)
    unresolved = served_files(serving("org/m", revision="dev"), environment)
    assert unresolved.commit is None
    assert unresolved.reasons["commit"] == "the revision 'dev' of 'org/m' is not in the hub cache"


@pytest.mark.parametrize("damaged", ["[]", "{", '{"eos_token_id": "two"}', "\x00", '{"added_tokens": 3, "model": []}'])
def test_damaged_files_are_reasons_and_no_tracebacks(tmp_path: Path, damaged: str) -> None:
    names = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
    found = read(tmp_path, **dict.fromkeys(names, damaged))
    assert found.stop_ids == ()
    assert "stop_ids" in found.reasons
