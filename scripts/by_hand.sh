#!/bin/bash
# What an engineer does by hand to compare BF16 with FP8 on the same model and questions: a fresh engine for every step.
# It is timed beside a gate (docs/performance.md). The steps are those of the usual write-ups: serve each precision for the
# prompts and the load tests, score a text three times offline with prompt_logprobs=20 (BF16 twice, to know the noise), run
# lm-eval three times (the same). Eight starts. Nothing is judged here and no report is written; reading the answers is not
# counted. Where write-ups differ the cheaper way is taken: one in flight is measured on the engine that is up, where
# `vllm bench latency` would start another two.
#
# usage: by_hand.sh MODEL PROMPTS.jsonl PROBLEMS.json CORPUS.txt OUT_DIR [vllm serve options of both precisions ...]
# From the environment: ENGINE (vllm), LM_EVAL (lm_eval), PYTHON (python3; it must import vllm), QUANTIZATION (fp8_per_channel),
#   WINDOWS (40) of WINDOW_TOKENS (2048), LOAD (32) in flight, REQUESTS (4 * LOAD) of them, SINGLE (0) requests one in flight,
#   STEPS (serve questions logprobs compare): steps share nothing but OUT_DIR, so they may run one by one, on cards of one kind
# Writes OUT_DIR/seconds-STEP.tsv: what was done, seconds of the engine's start, seconds of the work.
set -euo pipefail
model=${1:?usage: by_hand.sh MODEL PROMPTS PROBLEMS CORPUS OUT_DIR [options]}; prompts=$2; problems=$3; corpus=$4; out=$5; shift 5
options=("$@"); vllm=${ENGINE:-vllm}; lm_eval=${LM_EVAL:-lm_eval}; quantization=${QUANTIZATION:-fp8_per_channel}
load=${LOAD:-32}; requests=${REQUESTS:-$((load * 4))}; single=${SINGLE:-0}; port=${PORT:-8123}; python=${PYTHON:-python3}
mkdir -p "$out"; out=$(cd "$out" && pwd)
now() { date +%s.%N; }
since() { "$python" -S -c "import time; print(time.time() - ($1))"; }
pid=
serve() {    # serve NAME [options]: start an engine and wait until it answers
  local name=$1; shift; local began; began=$(now)
  setsid "$vllm" serve "$model" --host 127.0.0.1 --port "$port" --served-model-name hand "${options[@]}" "$@" > "$out/$name.server.log" 2>&1 &
  pid=$!
  for _ in $(seq 1800); do
    curl -sf "http://127.0.0.1:$port/health" > /dev/null && { started=$(since "$began"); return 0; }
    kill -0 "$pid" 2>/dev/null || { echo "$name: the engine ended, see $out/$name.server.log" >&2; exit 1; }
    sleep 0.5
  done
  echo "$name: the engine did not answer within 15 minutes" >&2; exit 1
}
unserve() { kill -TERM "$pid" 2>/dev/null || true; for _ in $(seq 60); do kill -0 "$pid" 2>/dev/null || break; sleep 0.25; done; kill -KILL -- "-$pid" 2>/dev/null || true; pid=; sleep 2; }
trap '[ -z "$pid" ] || unserve' EXIT
note() { printf '%s\t%.1f\t%.1f\n' "$1" "$2" "$3" | tee -a "$out/seconds-$step.tsv"; }

cat > "$out/ask.py" <<'P'
"""Asks every prompt once, one after the other, greedy, as the write-ups do."""
import json, sys, urllib.request
texts = []
for line in open(sys.argv[1]):
    row = json.loads(line)
    messages = row.get("messages") or [{"role": "user", "content": row["prompt"]}]
    body = {"model": "hand", "messages": messages, "temperature": 0, "max_tokens": 256}
    request = urllib.request.Request(sys.argv[2] + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    texts.append(json.load(urllib.request.urlopen(request, timeout=600))["choices"][0]["message"]["content"])
json.dump(texts, open(sys.argv[3], "w"))
P
cat > "$out/dump.py" <<'P'
"""Scores a text offline, the 20 likeliest tokens at every position, one fresh engine a run."""
import json, sys, time
began = time.time()
def main():
    from vllm import LLM, SamplingParams
    model, corpus, path, quantization, windows, tokens = *sys.argv[1:5], *map(int, sys.argv[5:7])
    llm = LLM(model=model, quantization=quantization or None, max_model_len=4096, gpu_memory_utilization=0.5, enforce_eager="eager" in sys.argv[7:])
    started = time.time() - began
    ids = llm.get_tokenizer().encode(open(corpus).read())
    chunks = [ids[i : i + tokens] for i in range(0, min(len(ids), windows * tokens), tokens)]
    outputs = llm.generate([{"prompt_token_ids": chunk} for chunk in chunks], SamplingParams(max_tokens=1, prompt_logprobs=20))
    rows = []
    for chunk, output in zip(chunks, outputs):
        for place in range(1, len(chunk)):
            scores = output.prompt_logprobs[place]
            rows.append({"real": scores[chunk[place]].logprob, "top": min(scores, key=lambda token: scores[token].rank)})
    json.dump(rows, open(path, "w"))
    open(path + ".start", "w").write(str(started))
if __name__ == "__main__":
    main()
P
cat > "$out/task.py" <<'P'
"""Writes the word problems as an lm-eval task."""
import json, pathlib, sys
import yaml
problems, out = json.load(open(sys.argv[1])), pathlib.Path(sys.argv[2])
for name in ("test", "fewshot"):
    (out / f"{name}.jsonl").write_text("".join(json.dumps({k: row[k] for k in ("question", "answer")}) + "\n" for row in problems[name]))
task = {"task": "hand", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(out / "test.jsonl"), "fewshot": str(out / "fewshot.jsonl")}},
        "output_type": "generate_until", "test_split": "test", "fewshot_split": "fewshot", "fewshot_config": {"sampler": "first_n"}, "num_fewshot": 5,
        "doc_to_text": "Question: {{question}}\nAnswer:", "doc_to_target": "answer", "generation_kwargs": {"until": ["Question:"], "temperature": 0.0, "max_gen_toks": 64},
        "metric_list": [{"metric": "exact_match", "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]}],
        "filter_list": [{"name": "strict-match", "filter": [{"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"}, {"function": "take_first"}]}]}
(out / "hand.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
P
cat > "$out/read.py" <<'P'
"""The three short scripts of the write-ups: equal texts, probabilities, flips. What a step left out has not left is not read."""
import difflib, json, math, pathlib, sys
out = pathlib.Path(sys.argv[1])
read = lambda name: json.loads((out / name).read_text())
if (out / "fp8.texts.json").exists():
    pairs = list(zip(read("bf16.texts.json"), read("fp8.texts.json"), strict=True))
    print(sum(a == b for a, b in pairs), "of", len(pairs), "texts identical;", [round(difflib.SequenceMatcher(None, a, b).ratio(), 2) for a, b in pairs if a != b])
    for kind in ("bench", "single"):
        if (out / f"fp8.{kind}.json").exists():
            print(kind, "output tok/s", [round(read(f"{name}.{kind}.json")["output_throughput"], 1) for name in ("bf16", "fp8")])
for name in ("bf16-again", "fp8"):
    if (out / f"{name}.logprobs.json").exists():
        rows = list(zip(read("bf16.logprobs.json"), read(f"{name}.logprobs.json"), strict=True))
        print(name, len(rows), "positions, same top", sum(a["top"] == b["top"] for a, b in rows) / len(rows), "PPL ratio", math.exp(sum(a["real"] - b["real"] for a, b in rows) / len(rows)))
def right(name):
    path = next((out / f"{name}.lm_eval").rglob("samples_*.jsonl"))
    return {row["doc_id"]: row["exact_match"] for row in map(json.loads, path.open())}
for name in ("bf16-again", "fp8"):
    if (out / f"{name}.lm_eval").exists():
        base, other = right("bf16"), right(name)
        print(name, "flips", sum(base[key] != other[key] for key in base), "of", len(base), "right", sum(base.values()), "->", sum(other.values()))
P

bench() {    # bench RESULT IN_FLIGHT REQUESTS TOKENS_IN TOKENS_OUT
  "$vllm" bench serve --backend openai --base-url "http://127.0.0.1:$port" --endpoint /v1/completions --model hand --tokenizer "$model" \
    --dataset-name random --random-input-len "$4" --random-output-len "$5" --ignore-eos --num-prompts "$3" --max-concurrency "$2" \
    --disable-tqdm --save-result --result-dir "$out" --result-filename "$1.json" > "$out/$1.log" 2>&1
}
step_serve() {
  for precision in bf16 fp8; do
    extra=(); [ "$precision" = fp8 ] && extra=(--quantization "$quantization")
    serve "$precision-prompts" "${extra[@]}"; began=$(now)
    "$python" "$out/ask.py" "$prompts" "http://127.0.0.1:$port" "$out/$precision.texts.json"
    note "$precision: prompts, one after the other" "$started" "$(since "$began")"; began=$(now)
    bench "$precision.bench" "$load" "$requests" 512 128; note "$precision: load test, $requests requests, $load in flight" 0 "$(since "$began")"
    if [ "$single" -gt 0 ]; then
      began=$(now); bench "$precision.single" 1 "$single" 1000 256; note "$precision: load test, $single requests, 1 in flight" 0 "$(since "$began")"
    fi
    unserve
  done
}
step_logprobs() {
  eager=; [[ " ${options[*]} " == *" --enforce-eager "* ]] && eager=eager
  for run in bf16 bf16-again fp8; do
    q=; [ "$run" = fp8 ] && q=$quantization; began=$(now)
    "$python" "$out/dump.py" "$model" "$corpus" "$out/$run.logprobs.json" "$q" "${WINDOWS:-40}" "${WINDOW_TOKENS:-2048}" $eager > "$out/$run.dump.log" 2>&1
    started=$(cat "$out/$run.logprobs.json.start"); note "$run: logprobs, offline" "$started" "$(since "$began + $started")"
  done
}
step_questions() {
  "$python" "$out/task.py" "$problems" "$out"
  for run in bf16 bf16-again fp8; do
    extra=(); [ "$run" = fp8 ] && extra=(--quantization "$quantization")
    serve "$run-questions" "${extra[@]}"; began=$(now)
    "$lm_eval" --model local-completions --tasks hand --include_path "$out" --output_path "$out/$run.lm_eval" --log_samples \
      --model_args "model=hand,base_url=http://127.0.0.1:$port/v1/completions,num_concurrent=128,max_length=4096,tokenizer_backend=None,tokenized_requests=False" > "$out/$run.lm_eval.log" 2>&1
    note "$run: questions" "$started" "$(since "$began")"; unserve
  done
}
step_compare() { began=$(now); "$python" "$out/read.py" "$out"; note "comparing, by three short scripts" 0 "$(since "$began")"; }
for step in ${STEPS:-serve questions logprobs compare}; do : > "$out/seconds-$step.tsv"; "step_$step"; done
cat "$out"/seconds-*.tsv | awk -F'\t' '{a += $2; b += $3} END {printf "all steps so far: %.1f s starts, %.1f s work, %.1f s\n", a, b, a + b}'
