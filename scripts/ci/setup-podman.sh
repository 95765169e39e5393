#!/usr/bin/env bash
# Makes podman work for the service tests, also inside a container or VM of a CI system.
#
#   eval "$(scripts/ci/setup-podman.sh DIR)"      installs what is missing (root, apt), writes DIR/containers.conf, exports its path
#
# Podman's defaults assume that limits can be raised and that cgroups are v2. On a runner that is itself a container neither
# needs to be true, so the file names limits that are always allowed, runc instead of crun, and the plain cgroup manager.
set -euo pipefail

directory=${1:?usage: setup-podman.sh DIR}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

missing=()
# catatonit is the init of `podman run --init`, which the action's measuring container uses.
for tool in podman buildah runc mmdebstrap catatonit; do
  PATH=$PATH:/usr/sbin:/usr/libexec/podman command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

# A build may have to pass a proxy whose certificate only the host knows, so builds and containers see the host's bundle, and
# pip inside of them is told to use it.
volumes=
bundle=/etc/ssl/certs/ca-certificates.crt
if [ -f "$bundle" ]; then
  printf '[global]\ncert = %s\n' "$bundle" >"$directory/pip.conf"
  volumes="volumes = [\"$bundle:$bundle:ro\", \"$directory/pip.conf:/etc/pip.conf:ro\"]"
fi
cat >"$directory/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
default_capabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"]
netns = "host"
$volumes

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"

[engine.runtimes]
runc = ["$(PATH=$PATH:/usr/sbin:/usr/libexec/podman command -v runc)"]
CONF
echo "export CONTAINERS_CONF=$directory/containers.conf"
