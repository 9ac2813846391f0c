#!/usr/bin/env bash
# Run steps on a GPU machine without network, in the root of a copy of the checkout with .gpu/:
#   bash .gpu/on_gpu.sh [smoke] [tests] [engine] [profile] [peers] [server]
# The default is smoke, tests, engine. KIT_SECONDS is the time of the whole command, which the steps
# share. README.md describes the steps and the variables.
set -u

main() {  # bash reads a function as a whole before it runs it
began=$SECONDS
root=$PWD
kit=$root/.gpu
if [ ! -d "$kit/wheels" ]; then
  echo "there is no .gpu/wheels here: run deploy/gpu/prepare.sh first" >&2
  exit 2
fi

python=${PYTHON:-python3}
case $python in */*) python=$(realpath -s "$python") ;; esac
whole=${KIT_SECONDS:-450}
factor=${KIT_TIME_FACTOR:-1}
status=0
OUT=$(realpath -m "${OUT:-$kit/out/$(date +%Y%m%d-%H%M%S)}")
KIT_HOME=$(realpath -m "${KIT_HOME:-${TMPDIR:-/tmp}/embedwell-gpu}")
export OUT KIT_HOME KIT_MODEL=$kit/model XDG_CACHE_HOME=$KIT_HOME/cache
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=true TQDM_DISABLE=1
export PYTHONUNBUFFERED=1 PIP_BREAK_SYSTEM_PACKAGES=1
mkdir -p "$OUT" "$KIT_HOME"
: > "$OUT/log.txt"

# The seconds that a step takes at most.
declare -A most=(
  [smoke]=80 [tests]=160 [hardware]=40 [engine]=160 [profile]=60 [peers]=100 [server]=130)
waiting=()  # the steps that have not begun
[ ! -f "$KIT_HOME/env.json" ] || cp "$KIT_HOME/env.json" "$OUT"
for name in ${*:-smoke tests engine}; do
  if [ -z "${most[$name]:-}" ]; then
    echo "there is no step $name" >&2
    exit 2
  fi
  # The limits of the hardware are measured once on a machine, before the first speed.
  case $name in
    hardware | smoke | tests) ;;
    *) [[ -f $OUT/env.json || " ${waiting[*]} " = *" hardware "* ]] || waiting+=(hardware) ;;
  esac
  waiting+=("$name")
done

left() { echo $((whole - (SECONDS - began))); }

share() {  # NAME: its share of the seconds that are left, by what each of the waiting steps takes
  local all=0 each part limit=$((most[$1] * factor))
  for each in "${waiting[@]}"; do all=$((all + most[$each])); done
  part=$((($(left) - 10) * most[$1] / all))
  echo $((part < limit ? part : limit))
}

step() {  # NAME COMMAND...: run a command for at most $limit seconds
  local name=$1 code
  shift
  echo "== $name, at most $limit of $(left) seconds"
  timeout -k 5 "$limit" "$@" 2>&1 | tee -a "$OUT/log.txt" | tail -n "${KIT_LINES:-40}" | cut -c1-240
  code=${PIPESTATUS[0]}
  echo "== $name ended with status $code, $((SECONDS - began)) seconds after the start"
  [ "$code" -eq 0 ] || status=1
}

# A copy of the code, which is adapted to this machine's packages.
work=$KIT_HOME/work
site=$KIT_HOME/site
rm -rf "$work"
mkdir -p "$work"
tar -C "$root" --exclude=__pycache__ --exclude=node_modules -cf - \
  benchmarks deploy docs examples models service tests pyproject.toml LICENSE README.md | tar -C "$work" -xf -
if ! ls "$kit/wheels" | cmp -s - "$KIT_HOME/wheels.txt"; then
  rm -rf "$site"
  "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile \
    --no-cache-dir --target "$site" "$kit"/wheels/*.whl || exit 2
  ls "$kit/wheels" > "$KIT_HOME/wheels.txt"
fi
mkdir -p "$XDG_CACHE_HOME/embedwell"
ln -sfn "$kit/model" "$XDG_CACHE_HOME/embedwell/all-MiniLM-L6-v2"
export PYTHONPATH=$site:$work/models:$work/service:$work
cd "$work" || exit 2
"$python" -m deploy.gpu.adapt "$work" "$kit/model/model.safetensors" 2>&1 | tee -a "$OUT/log.txt"
[ "${PIPESTATUS[0]}" -eq 0 ] || status=1
echo "== ready $((SECONDS - began)) seconds after the start"

while [ "${#waiting[@]}" -gt 0 ]; do
  stage=${waiting[0]}
  limit=$(share "$stage")
  waiting=("${waiting[@]:1}")
  if [ "$limit" -lt 10 ]; then
    echo "== $stage: no time left"
    continue
  fi
  within=$((limit * 7 / 8))  # so that a step ends by itself
  case $stage in
    hardware)
      step hardware "$python" -m deploy.gpu.hardware
      [ ! -f "$OUT/env.json" ] || cp "$OUT/env.json" "$KIT_HOME" ;;
    smoke) step smoke "$python" -m deploy.gpu.smoke ${KIT_SMOKE:-} ;;
    tests)
      step tests env OMP_NUM_THREADS=2 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
        "$python" -m pytest -p xdist.plugin -p pytest_timeout -p deploy.gpu.pytest_plugin -W ignore \
        -q -rs --tb=short -n "${KIT_PROCESSES:-6}" --maxprocesses 8 --max-worker-restart 40 \
        --timeout 60 --timeout-method thread -m "${KIT_MARK:-gpu}" ${KIT_TESTS:-tests/gpu} ;;
    engine) step engine "$python" -m deploy.gpu.engine --seconds "$within" ${KIT_ENGINE:-} ;;
    profile) step profile "$python" -m deploy.gpu.profiler "$within" ;;
    peers) step peers "$python" -m deploy.gpu.peers "$within" ;;
    server) step server "$python" -m deploy.gpu.server "$within" ;;
  esac
done
"$python" -m deploy.gpu.summary
echo "== done after $((SECONDS - began)) seconds; results in $OUT: $(cd "$OUT" && echo *)"
exit "$status"
}
main "$@"
