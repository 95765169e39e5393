from importlib import resources

from servegate.engines.options import DATA_FILE, VLLM_VERSION, known_options, suggestion


def test_the_data_file_names_its_source_and_holds_only_known_words():
    text = resources.files("servegate.data").joinpath(DATA_FILE).read_text("utf-8")
    assert text.startswith(f"# Options of `vllm serve` in vLLM {VLLM_VERSION}, read from its own parser")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    assert len(rows) > 250
    assert {row[1] for row in rows} <= {"flag", "toggle", "value", "list", "optional"}
    assert {row[2] for row in rows} <= {"none", "text", "error"}
    assert {row[3] for row in rows} <= {"off", "on", "unset", "set"}
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})


def test_other_names_lead_to_the_option():
    options = known_options()
    assert options["no-enable-prefix-caching"].name == "enable-prefix-caching"
    assert options["device-memory-utilization"].name == "gpu-memory-utilization"
    assert "no-headless" not in options
    assert "tp" not in options


def test_suggestions():
    assert suggestion("max-modle-len") == "; did you mean 'max-model-len'?"
    assert suggestion("q") == "; did you mean 'quantization'?"
    assert suggestion("zzzzzz") == ""
