#!/usr/bin/env bash
# Builds, runs and tests the image: with docker where its engine answers, else with podman, else as
# root with buildah; ENGINE names one of them.
#   deploy/image.sh build [--build-arg NAME=VALUE ...]
#   deploy/image.sh run | test
#   deploy/image.sh labels
# IMAGE names the image, PORT the port on 127.0.0.1. run passes on the variables EMBEDWELL_* and
# HF_TOKEN. build uses HF_TOKEN for a model that is not public; the image does not contain it.
# labels prints the labels that depend on the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-embedwell}
port=${PORT:-8080}
engine=${ENGINE:-buildah}
for name in podman docker; do
  if [[ -z ${ENGINE:-} ]] && $name info >/dev/null 2>&1; then engine=$name; fi
done

main() {
  case ${1:-} in
    build) build "${@:2}" ;;
    run) run ;;
    test) check ;;
    labels) labels ;;
    *) sed -n 's/^# *\(deploy.*\)/usage: \1/p' "$0" >&2; exit 2 ;;
  esac
}

build() {
  local options=(--tag "$image") label
  while read -r label; do options+=(--label "$label"); done < <(labels)
  scratch=$(mktemp -d)
  trap 'rm -r "$scratch"' EXIT
  pip_settings
  if [[ -s $scratch/pip.conf ]]; then options+=(--secret "id=pip,src=$scratch/pip.conf"); fi
  if [[ -s $scratch/ca ]]; then options+=(--secret "id=ca,src=$scratch/ca"); fi
  if [[ -n ${HF_TOKEN:-} ]]; then options+=(--secret "id=hf_token,env=HF_TOKEN"); fi
  if [[ $engine == docker ]]; then
    DOCKER_BUILDKIT=1 docker build "${options[@]}" "$@" .
    return
  fi
  # Wheel folders of this machine; docker cannot mount a folder into a build.
  while read -r folder; do options+=(--volume "$folder:$folder:ro"); done < "$scratch/folders"
  if [[ $engine == buildah ]]; then options+=(--isolation chroot); fi
  # The format of docker, because the other has no HEALTHCHECK.
  "$engine" build --format docker --layers "${options[@]}" "$@" .
}

# Nothing is printed for what is not known.
labels() {
  local prefix=org.opencontainers.image
  sed -n "s/^__version__ = \"\(.*\)\"/$prefix.version=\1/p" service/embedwell/__init__.py
  git describe --always --abbrev=40 --dirty --exclude '*' 2>/dev/null | sed "s/^/$prefix.revision=/" || true
  # As a web address, without a name or a token in it.
  git remote get-url origin 2>/dev/null \
    | sed -nE "s#^(ssh://)?git@([^:/]+)[:/]#https://\2/#; s#^(https://)[^/@]*@#\1#; s#\.git\$##; s#^https://#$prefix.source=&#p" || true
}

# Lets the build's pip find the packages that this machine's pip finds. The settings go into
# $scratch/pip.conf, the certificates into ca, and the folders that the settings name into folders.
pip_settings() {
  python3 - "$scratch" <<'PYTHON'
import ast, os, pathlib, re, subprocess, sys

scratch = pathlib.Path(sys.argv[1])
command = [sys.executable, "-m", "pip", "config", "list"]
listed = subprocess.run(command, capture_output=True, text=True).stdout
pattern = re.compile(r"^(?:global|install|:env:)\.([\w-]+)=('.*')$", re.M)
wanted = {"index-url", "extra-index-url", "find-links", "trusted-host", "proxy", "timeout"}
# A variable is listed before the files and outranks them.
found = {name: ast.literal_eval(value) for name, value in reversed(pattern.findall(listed))}
lines = [f"{name} = {' '.join(found[name].split())}" for name in sorted(wanted & found.keys())]
authority = found.get("cert") or os.environ.get("SSL_CERT_FILE")
if authority and os.path.isfile(authority):
    (scratch / "ca").write_bytes(pathlib.Path(authority).read_bytes())
    lines.append("cert = /run/secrets/ca")
(scratch / "pip.conf").write_text("\n".join(["[global]", *lines, ""]) if lines else "")
places = " ".join(found.get(name, "") for name in ("extra-index-url", "index-url", "find-links"))
folders = {place.removeprefix("file://").removesuffix("/simple") for place in places.split()}
(scratch / "folders").write_text("".join(f"{f}\n" for f in sorted(folders) if os.path.isdir(f)))
PYTHON
}

run() {
  local options=()
  for name in $(env | sed -n 's/^\(EMBEDWELL_[A-Z_]*\|HF_TOKEN\)=.*/\1/p'); do options+=(--env "$name"); done
  if [[ $engine == buildah ]]; then
    run_buildah "${options[@]}"
    return
  fi
  exec "$engine" run --rm --init --read-only --tmpfs /tmp --cap-drop ALL \
    --security-opt no-new-privileges "${options[@]}" --env EMBEDWELL_HOST=0.0.0.0 --env EMBEDWELL_PORT=8080 \
    --publish "127.0.0.1:$port:8080" "$image"
}

# Without a network of its own the server itself listens on the port.
run_buildah() {
  local command
  container=$(buildah from --pull-never "$image")
  trap 'buildah rm "$container" >/dev/null' EXIT
  command=$(buildah inspect --format '{{range .Docker.Config.Cmd}}{{.}} {{end}}' "$container")
  # buildah kills the server at once when it is told to stop, so the server is told instead;
  # a session of its own keeps Ctrl-C from buildah.
  # shellcheck disable=SC2086
  setsid buildah run --isolation chroot "$@" --env EMBEDWELL_HOST=127.0.0.1 --env EMBEDWELL_PORT="$port" \
    "$container" -- $command &
  runtime=$!
  trap 'kill -TERM "$(descendant $runtime 3)"' TERM INT
  wait $runtime || wait $runtime  # the first ends when the signal comes
}

descendant() {
  local process=$1
  for _ in $(seq "$2"); do process=$(pgrep --parent "$process"); done
  echo "$process"
}

check() {
  local started dimensions client
  if curl -s "127.0.0.1:$port" >/dev/null; then
    echo "port $port is taken" >&2
    exit 1
  fi
  started=$(date +%s%3N)
  run &
  server=$!
  trap 'kill -TERM $server 2>/dev/null || true' EXIT
  until curl -sf "127.0.0.1:$port/ready" >/dev/null; do
    if ! kill -0 $server || (($(date +%s%3N) - started > 60000)); then
      echo "the server did not become ready" >&2
      exit 1
    fi
    sleep 0.1
  done
  echo "ready after $(($(date +%s%3N) - started)) ms"
  dimensions=$(embed 1 | python3 -c 'import json, sys; print(*map(len, json.load(sys.stdin)))')
  echo "one text, $dimensions dimensions"
  [[ $dimensions == 384 ]]

  embed 2000 >/dev/null &
  client=$!
  until curl -s "127.0.0.1:$port/ready" | grep -q '"queued_tokens":[1-9]' || ! kill -0 $client 2>/dev/null; do
    sleep 0.01
  done
  kill -TERM $server
  wait $client
  wait $server || true  # ended by the signal, once it has answered
  echo "answered what was running before it stopped"
}

embed() {
  python3 -c "import json; print(json.dumps({'inputs': [f'text {n}' for n in range($1)]}))" \
    | curl -sf "127.0.0.1:$port/embed" -d @-
}

main "$@"
