#!/usr/bin/env bash
# For machines without a container registry: makes the Dockerfile's base image out of Debian
# packages and tags it like the FROM line. Needs root, podman and mmdebstrap. DEBIAN_MIRROR names
# another mirror. What was made is kept in ~/.cache/embedwell-image (XDG_CACHE_HOME).
set -euo pipefail

tag=$(sed -n 's/^ARG BASE=//p' "$(dirname "$0")/../Dockerfile")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/embedwell-image
archive=$cache/base-$(sha256sum "$0" | head -c 12).tar

if [[ ! -e $archive ]]; then
  mkdir -p "$cache"
  # The public image calls it python, and has no manuals.
  # shellcheck disable=SC2016
  mmdebstrap --variant=minbase --include=ca-certificates,python3-venv,usr-is-merged \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
    --customize-hook='rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/usr/share/locale/*' \
    --customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"' \
    bookworm "$archive.new.tar" "$mirror"
  mv "$archive.new.tar" "$archive"
fi
podman import --change 'CMD ["python3"]' \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$archive" "$tag"
