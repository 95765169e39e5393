import json

import pytest

from servegate.engines.model_files import local_config
from servegate.errors import UsageError

SHARD = (2).to_bytes(8, "little") + b"{}" + b"\0" * 2000


def test_hub_ids_and_urls_pass():
    for source in ("org/name", "name", "Org.x/Name-1_b", "s3://bucket/model"):
        assert local_config(source) is None


def test_a_directory_gives_its_config(tmp_path):
    assert local_config(str(tmp_path)) is None
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 30, "x": Infinity}')
    (tmp_path / "model.safetensors").write_bytes(SHARD)
    assert local_config(str(tmp_path)) == {"num_hidden_layers": 30, "x": None}


@pytest.mark.parametrize("source", ["/none/model", "./none", "../none", "~/none-such", "a/b/c", "with space"])
def test_a_missing_directory_is_no_hub_id(source):
    with pytest.raises(UsageError, match="no such directory"):
        local_config(source)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "a Git-LFS pointer of 64 bytes"),
        (b"", "no whole safetensors file"),
        (SHARD[:500], "no whole safetensors file"),
        (b"<html>" + b"x" * 5000, "no whole safetensors file"),
        ((1 << 40).to_bytes(8, "little") + b"{" + b"x" * 5000, "no whole safetensors file"),
    ],
)
def test_shards_that_are_none(tmp_path, content, said):
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        local_config(str(tmp_path))
    assert "model-00001-of-00002.safetensors" in caught.value.what
    if said.startswith("a Git"):
        assert "git lfs pull" in caught.value.advice


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, "\ud800"])
def test_a_config_that_is_none(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=r"config\.json: (not JSON|holds no)"):
        local_config(str(tmp_path))


def test_the_demo_shape_of_a_config_is_returned_whole(tmp_path):
    config = {"architectures": ["LlamaForCausalLM"], "rope_scaling": {"factor": 2.0}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert local_config(str(tmp_path)) == config
