#!/usr/bin/env bash
# Fill .gpu/ with what a GPU machine without network needs: wheels, and the default model.
#   bash deploy/gpu/prepare.sh
# PYTHON: the interpreter with this project's packages. KIT_PYTHON_VERSION: the Python of the GPU
# machine. KIT_MAX_MIB: what .gpu/ and the checkout may be together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-.venv/bin/python}
version=${KIT_PYTHON_VERSION:-3.12}
limit=${KIT_MAX_MIB:-64}
export PYTHONPATH=models:service:.

rm -rf .gpu
mkdir -p .gpu/wheels .gpu/model
printf '#!/usr/bin/env bash\nexec bash deploy/gpu/on_gpu.sh "$@"\n' > .gpu/on_gpu.sh

missing=$("$python" -m deploy.gpu.missing_requirements)
echo "wheels of: ${missing//$'\n'/ }"
platforms=()
for platform in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1; do
  platforms+=(--platform "${platform}_x86_64")
done
# With their own requirements, which may be newer than the packages of the GPU machine.
mapfile -t requirements <<< "$missing"
"$python" -m pip --disable-pip-version-check download --quiet --only-binary=:all: \
  --python-version "$version" --implementation cp "${platforms[@]}" \
  --constraint constraints.txt --dest .gpu/wheels "${requirements[@]}"

"$python" -m deploy.gpu.float16_model .gpu/model

bytes_of_git() { git ls-files -coz --exclude-standard | xargs -0 -r cat -- 2>/dev/null | wc -c; }
tree=$(bytes_of_git)
carried=$(du -sb .gpu | cut -f1)
echo "to carry: $((carried >> 20)) MiB of .gpu and $((tree >> 20)) MiB of the checkout;" \
  "limit $limit MiB"
if [ $((carried + tree)) -gt $((limit << 20)) ]; then
  echo "this is more than the limit (KIT_MAX_MIB)" >&2
  exit 1
fi
echo 'on the GPU machine, in the copy of this checkout: bash .gpu/on_gpu.sh'
