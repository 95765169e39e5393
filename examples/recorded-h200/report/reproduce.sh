#!/bin/sh
# Repeats gate h200-8b-fp8, in the directory in which it ran:
#   sh reproduce.sh gate         measures, compares and reports again
#   sh reproduce.sh baseline     serves that arm on port 8000, to look at it
#   sh reproduce.sh candidate    serves that arm on port 8000, to look at it
# The new run goes to servegate-again/; options after `gate` are passed on (--output, --force, --engine).
# Settings that are not servegate's defaults, and where each came from:
#   arms.baseline.config: serving/8b.yaml  [large.yaml:4]
#   arms.candidate.config: serving/8b-fp8.yaml  [large.yaml:4]
#   checks.throughput.concurrency: [1, 32, 64]  [large.yaml:8]
#   checks.throughput.input_tokens: 512  [large.yaml:8]
#   checks.throughput.judged_at: 32  [large.yaml:8]
#   checks.throughput.limits.fail_ratio: 0.9  [policy]
#   checks.throughput.output_tokens: 128  [large.yaml:8]
#   checks.throughput.single: not set  [large.yaml:8]
#   checks.throughput.slo.tpot_ms: 20.0  [large.yaml:8]
#   checks.throughput.slo.ttft_ms: 1000.0  [large.yaml:8]
#   checks.throughput.windows: 3  [large.yaml:8]
#   engine.executable: /usr/local/bin/vllm  [--engine]
#   gate: h200-8b-fp8  [large.yaml:2]
#   output.directory: runs  [--output]
#   policy: quick  [large.yaml:3]
#   rounds: 2  [policy]
#   version: 1  [large.yaml:1]
set -eu
case "${1:-}" in
gate)
  shift
  exec servegate run --config=large.yaml --engine=/usr/local/bin/vllm --output=servegate-again "$@"
  ;;
baseline)
  exec /usr/local/bin/vllm serve /models/qwen3-8b-dummy \
  --dtype=bfloat16 \
  --max-model-len=4096 \
  --load-format=dummy \
  --gpu-memory-utilization=0.92 \
  --max-num-seqs=64 \
  --host=127.0.0.1 \
  --port=8000
  ;;
candidate)
  exec /usr/local/bin/vllm serve /models/qwen3-8b-dummy \
  --dtype=bfloat16 \
  --max-model-len=4096 \
  --load-format=dummy \
  --gpu-memory-utilization=0.92 \
  --max-num-seqs=64 \
  --quantization=fp8_per_channel \
  --host=127.0.0.1 \
  --port=8000
  ;;
*)
  echo 'usage: sh reproduce.sh gate|baseline|candidate' >&2
  exit 2
  ;;
esac
