import pytest

from servegate.engines.environment import engine_environment, is_passed_on, is_secret
from servegate.errors import UsageError


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "GITHUB_OUTPUT", "GH_TOKEN", "ACTIONS_RUNTIME_URL", "AWS_REGION", "AZURE_CLIENT_ID", "OPENAI_API_KEY",
        "INPUT_X", "VLLM_API_KEY", "WANDB_API_KEY", "DB_PASSWORD", "MY_SECRET", "SECRET_THING",
        "GOOGLE_APPLICATION_CREDENTIALS", "npm_token", "SSH_AUTH_SOCK", "SERVEGATE_ARM", "SIGNING_KEY", "SOME_PAT",
    ],
)  # fmt: skip
def test_credentials_are_withheld(name):
    assert not is_passed_on(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME", "CUDA_VISIBLE_DEVICES", "VLLM_CPU_KVCACHE_SPACE",
        "LD_LIBRARY_PATH", "TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "KEYBOARD", "PATTERN", "NCCL_P2P_DISABLE",
        "XDG_CACHE_HOME",
    ],
)  # fmt: skip
def test_what_an_engine_needs_is_passed_on(name):
    assert is_passed_on(name)


def test_the_hub_token_is_passed_on_and_secret():
    assert is_secret("HF_TOKEN")
    assert not is_secret("HF_HOME")


def test_the_arm_wins_over_the_caller_and_may_set_what_it_likes():
    environment = engine_environment({"A": "1", "GITHUB_TOKEN": "x", "HF_HUB_OFFLINE": "1"}, {"A": "2", "AWS_REGION": "eu"})
    expected = {"A": "2", "HF_HUB_OFFLINE": "1", "AWS_REGION": "eu", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    assert environment == expected


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A", "x\0y"), ("A\0", "x"), ("A", "\ud800")])
def test_what_no_process_can_be_given_is_refused(name, value):
    with pytest.raises(UsageError, match="cannot be set"):
        engine_environment({}, {name: value})
