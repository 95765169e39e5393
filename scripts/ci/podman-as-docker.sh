#!/usr/bin/env bash
# Serves Docker's API from podman, so that the `docker` command, and with it the composite action, runs without a Docker daemon.
#
#   eval "$(scripts/ci/podman-as-docker.sh DIR start)"      exports DOCKER_HOST; the service's log is DIR/service.log
#   scripts/ci/podman-as-docker.sh DIR stop
set -euo pipefail

directory=${1:?usage: podman-as-docker.sh DIR start|stop}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
socket=$directory/podman.sock

case ${2:?usage: podman-as-docker.sh DIR start|stop} in
  start)
    rm -f "$socket"
    setsid nohup podman system service --time 0 "unix://$socket" >"$directory/service.log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$directory/service.pid"
    for _ in {1..100}; do
      [ -S "$socket" ] && break
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    if [ ! -S "$socket" ]; then
      cat "$directory/service.log" >&2
      echo "podman-as-docker: podman's API service did not start" >&2
      exit 1
    fi
    # BuildKit is Docker's own; podman's API builds the classic way.
    echo "export DOCKER_HOST=unix://$socket DOCKER_BUILDKIT=0"
    ;;
  stop)
    kill "$(cat "$directory/service.pid")" 2>/dev/null || true
    rm -f "$directory/service.pid" "$socket"
    ;;
  *)
    echo "usage: podman-as-docker.sh DIR start|stop" >&2
    exit 2
    ;;
esac
