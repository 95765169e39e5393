#!/bin/sh
# Repeats gate demo-fp8, in the directory in which it ran:
#   sh reproduce.sh gate         measures, compares and reports again
#   sh reproduce.sh baseline     serves that arm on port 8000, to look at it
#   sh reproduce.sh candidate    serves that arm on port 8000, to look at it
# The new run goes to servegate-again/; options after `gate` are passed on (--output, --force, --engine).
# Settings that are not servegate's defaults, and where each came from:
#   arms.baseline.config: serving/bf16.yaml  [examples/demo-cpu/servegate.yaml:8]
#   arms.candidate.config: serving/fp8.yaml  [--candidate]
#   checks.accuracy.concurrency: 64  [examples/demo-cpu/servegate.yaml:21]
#   checks.accuracy.tasks: [{"file": "problems.json", "filter": null, "max_tokens": 40, "name": "word-problems", "questions": "all", "shots": 5}]  [examples/demo-cpu/servegate.yaml:19]
#   checks.prompts.concurrency: 32  [examples/demo-cpu/servegate.yaml:17]
#   checks.prompts.file: prompts.jsonl  [examples/demo-cpu/servegate.yaml:17]
#   checks.prompts.max_tokens: 48  [examples/demo-cpu/servegate.yaml:17]
#   checks.throughput.concurrency: [8]  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.input_tokens: 32  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.judged_at: 8  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.output_tokens: 8  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.requests_per_window: 8  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.warm_up_requests: 1  [examples/demo-cpu/servegate.yaml:23]
#   checks.throughput.windows: 1  [examples/demo-cpu/servegate.yaml:23]
#   engine.environment.VLLM_CPU_KVCACHE_SPACE: 2  [examples/demo-cpu/servegate.yaml:15]
#   engine.executable: /home/user/.cache/servegate/engine-6d3bce5fd75a/bin/vllm  [--engine]
#   engine.kind: vllm  [examples/demo-cpu/servegate.yaml:12]
#   engine.request_timeout_s: 300.0  [examples/demo-cpu/servegate.yaml:14]
#   engine.start_timeout_s: 300.0  [examples/demo-cpu/servegate.yaml:13]
#   gate: demo-fp8  [--gate]
#   output.directory: servegate-runs  [--output]
#   policy: standard  [examples/demo-cpu/servegate.yaml:6]
#   rounds: 2  [examples/demo-cpu/servegate.yaml:10]
#   version: 1  [examples/demo-cpu/servegate.yaml:4]
set -eu
case "${1:-}" in
gate)
  shift
  exec servegate run --config=examples/demo-cpu/servegate.yaml --candidate=examples/demo-cpu/serving/fp8.yaml --engine=/home/user/.cache/servegate/engine-6d3bce5fd75a/bin/vllm --gate=demo-fp8 --output=servegate-again "$@"
  ;;
baseline)
  exec env VLLM_CPU_KVCACHE_SPACE=2 /home/user/.cache/servegate/engine-6d3bce5fd75a/bin/vllm serve .demo/smollm2-135m-instruct \
  --dtype=bfloat16 \
  --max-model-len=2048 \
  --enforce-eager \
  --host=127.0.0.1 \
  --port=8000
  ;;
candidate)
  exec env VLLM_CPU_KVCACHE_SPACE=2 /home/user/.cache/servegate/engine-6d3bce5fd75a/bin/vllm serve .demo/smollm2-135m-instruct \
  --dtype=bfloat16 \
  --max-model-len=2048 \
  --enforce-eager \
  --quantization=fp8_per_channel \
  --host=127.0.0.1 \
  --port=8000
  ;;
*)
  echo 'usage: sh reproduce.sh gate|baseline|candidate' >&2
  exit 2
  ;;
esac
