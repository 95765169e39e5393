#!/usr/bin/env bash
# Fills DIR with every wheel that the Dockerfile installs, so that the image is built without a network.
#
#   scripts/ci/make-wheelhouse.sh DIR       prints DIR's absolute path, for SERVEGATE_TEST_WHEELS (tests/end_to_end/conftest.py)
#
# Wheels are of the version and platform of $PYTHON (or `python3`), which must be the base image's too. A folder that was filled
# from the same pins is left as it is.
set -euo pipefail

directory=${1:?usage: make-wheelhouse.sh DIR}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

stamp=$directory/made-of-$({ cat "$root"/requirements/{core,eval}.txt "$root/pyproject.toml"; "$python" --version; } | sha256sum | cut -c1-12)
if [ ! -f "$stamp" ]; then
  rm -f "$directory"/made-of-* "$directory"/*.whl
  # What pyproject.toml builds the package with, beside the pins.
  mapfile -t backend < <("$python" -c '
import sys, tomllib
print("\n".join(tomllib.load(open(sys.argv[1], "rb"))["build-system"]["requires"]))' "$root/pyproject.toml")
  "$python" -m pip -qqq --disable-pip-version-check wheel --wheel-dir "$directory" \
    --requirement "$root/requirements/core.txt" --requirement "$root/requirements/eval.txt" "${backend[@]}" >&2
  touch "$stamp"
fi
echo "$directory"
