#!/usr/bin/env bash
# Makes localhost/python-git:VERSION-slim from Debian packages and a CPython of this host, for builds where no image registry can
# be reached. It stands in for the official python image (with git) in tests of the Dockerfile; it is not that image.
#
#   scripts/ci/make-base-image.sh [VERSION]       prints the image's name; VERSION defaults to that of $PYTHON or `python3`
#
# Needs root, podman and mmdebstrap (scripts/ci/setup-podman.sh). SUITE names the Debian release (default: this host's own),
# PYTHON the interpreter whose installation is copied.
set -euo pipefail

python=${PYTHON:-python3}
version=${1:-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
image=localhost/python-git:$version-slim
if podman image exists "$image"; then
  echo "$image"
  exit 0
fi

# A pyenv shim exists for every version that pyenv has, but answers only for the active ones.
for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
  if "$candidate" -c '' >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
read -r found prefix < <("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.base_prefix)')
if [ "$found" != "$version" ]; then
  echo "make-base-image: '$python' is Python $found, not $version: set PYTHON to an interpreter of that version" >&2
  exit 1
fi
# shellcheck source=/dev/null
suite=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
# The shared libraries that CPython's extension modules link to; everything else stays out.
mmdebstrap --quiet --variant=minbase --mode=root \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include=ca-certificates,git,netbase,tzdata,libssl3,libffi8,libsqlite3-0,libreadline8,libbz2-1.0,liblzma5,libncursesw6,libuuid1,libexpat1,libnsl2 \
  "$suite" "$tree" >&2

# Only lib/pythonX.Y, the interpreter and the headers: a prefix such as /usr holds far more than Python. An interpreter built
# with a shared libpython needs that too.
libraries=()
for library in "$prefix"/lib/libpython"$version"*.so*; do
  [ -e "$library" ] && libraries+=("lib/$(basename "$library")")
done
tar -C "$prefix" --exclude=__pycache__ --exclude="lib/python$version/test" --exclude="lib/python$version/idlelib" \
  --exclude="lib/python$version/tkinter" --exclude="lib/python$version/site-packages/*" --exclude='*.a' \
  -c "bin/python$version" "lib/python$version" "include/python$version" "${libraries[@]}" | tar -C "$tree/usr/local" -x
chroot "$tree" /sbin/ldconfig
chroot "$tree" "/usr/local/bin/python$version" -m ensurepip >/dev/null 2>&1
find "$tree/usr/local" -name __pycache__ -prune -exec rm -rf {} +
ln -sf "python$version" "$tree/usr/local/bin/python3"
ln -sf python3 "$tree/usr/local/bin/python"
ln -sf pip3 "$tree/usr/local/bin/pip"

tar -C "$tree" --numeric-owner -c . |
  podman import -q --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' --change 'ENV LANG=C.UTF-8' \
    --change 'CMD=["python3"]' - "$image" >/dev/null
echo "$image"
