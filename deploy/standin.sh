#!/usr/bin/env bash
# For machines without a container registry: makes the Dockerfile's base image out of Debian
# packages and tags it like the FROM line. Needs root, buildah and debootstrap. DEBIAN_MIRROR names another mirror.
set -euo pipefail

tag=$(sed -n 's/^ARG BASE=//p' "$(dirname "$0")/../Dockerfile")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null' EXIT
root=$(buildah mount "$container")

debootstrap --variant=minbase --include=ca-certificates,python3-venv bookworm "$root" "$mirror"
# The public image calls it python, and has neither apt's lists nor manuals.
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
  "$root"/usr/share/{doc,man,locale}/*

buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  --cmd python3 "$container"
buildah commit --format docker "$container" "$tag"
