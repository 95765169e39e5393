#!/bin/sh
# Repeats gate qwen3-8b-fp8, in the directory in which it ran:
#   sh reproduce.sh gate         measures, compares and reports again
#   sh reproduce.sh baseline     serves that arm on port 8000, to look at it
#   sh reproduce.sh candidate    serves that arm on port 8000, to look at it
# The new run goes to servegate-again/; options after `gate` are passed on (--output, --force, --engine).
# Settings that are not servegate's defaults, and where each came from:
#   checks.accuracy.limits.drop: 0.025  [policy standard]
#   checks.prompts.file: serving/prompts.jsonl  [servegate.yaml:12]
#   checks.prompts.limits.contracts_lost: 0  [policy standard]
set -eu
case "${1:-}" in
gate)
  shift
  exec servegate run --config=servegate.yaml --output=servegate-again "$@"
  ;;
baseline)
  exec env VLLM_LOGGING_LEVEL=INFO vllm serve Qwen/Qwen3-8B \
  --max-model-len=8192 \
  --gpu-memory-utilization=0.85 \
  --max-num-seqs=256 \
  --host=127.0.0.1 \
  --port=8000
  ;;
candidate)
  exec env VLLM_LOGGING_LEVEL=INFO vllm serve Qwen/Qwen3-8B \
  --max-model-len=8192 \
  --gpu-memory-utilization=0.85 \
  --max-num-seqs=256 \
  --quantization=fp8_per_channel \
  --kv-cache-dtype=fp8 \
  --host=127.0.0.1 \
  --port=8000
  ;;
*)
  echo 'usage: sh reproduce.sh gate|baseline|candidate' >&2
  exit 2
  ;;
esac
