# The base of every stage.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS compiler
# g++ compiles the kernels and brings strip.
RUN apt-get update && apt-get install --yes --no-install-recommends g++
ENV PATH=/opt/venv/bin:$PATH PIP_CONSTRAINT=/src/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
# Where something requires setuptools, pip installs it again.
RUN python -m venv /opt/venv && pip uninstall --yes setuptools
WORKDIR /src
COPY constraints.txt ./

# Apart, so that a change of other code compiles no kernels.
FROM compiler AS kernels
COPY hatch_build.py ./
COPY models/embedwell_models/kernels models/embedwell_models/kernels
# Instruction sets of hatch_build.py, separated by spaces; all by default.
ARG KERNELS=
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=cache,target=/root/.cache/pip \
    case $(uname -m) in x86_64 | aarch64) pip install hatchling && python hatch_build.py $KERNELS ;; esac

FROM compiler AS dependencies
# none, cpu or cuda: whether there is a PyTorch, and which build of it. The kernels need none, but
# exist for x86-64 and ARM64 alone; on other processors, none is cpu.
ARG TORCH=none
# Where torch is taken from. By default PyTorch's own index for cpu, and pip's index for cuda.
ARG TORCH_INDEX=
COPY pyproject.toml deploy/requirements.py deploy/import_requirements.py ./
# First and alone, so that no other index can offer a torch with CUDA instead.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=cache,target=/root/.cache/pip \
    case "$TORCH:$(uname -m)" in \
      none:x86_64 | none:aarch64) exit 0 ;; \
      none:*) echo "There are no kernels for $(uname -m): the image gets torch"; TORCH=cpu ;; \
    esac \
 && case "$TORCH" in \
      cpu) index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu} ;; \
      cuda) index=$TORCH_INDEX ;; \
      *) echo "TORCH is none, cpu or cuda, not $TORCH" >&2; exit 2 ;; \
    esac \
 && pip install --no-deps ${index:+--index-url "$index"} torch \
 && cuda=$(sed -n "s/^cuda.*= '\?\([^']*\)'\?$/\1/p" /opt/venv/lib/python3*/site-packages/torch/version.py) \
 && case "$TORCH:$cuda" in \
      cpu:None | cuda:[0-9]*) ;; \
      *) echo "${index:-the index of pip} has another build of torch than $TORCH (CUDA: $cuda)" >&2; exit 1 ;; \
    esac
# Extras of pyproject.toml, separated by spaces.
ARG EXTRAS=otel
# Bytecode of the imported modules only. No headers, tests and symbol tables.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=cache,target=/root/.cache/pip \
    torch=$(find /opt/venv/lib/python3*/site-packages -maxdepth 1 -name torch -printf %f) \
 && python requirements.py $torch $EXTRAS > requirements.txt \
 && pip install --requirement requirements.txt \
 && cd /opt/venv/lib/python3*/site-packages \
 && rm -rf torch/include torch/test torch/bin/*[tT]est* torch/bin/protoc* pyarrow/include \
 && find . -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} + \
 && find . -name '*.so' -not -path './nvidia/*' -not -path '*.libs/*' -exec strip --strip-unneeded {} + \
 && cd /src && python import_requirements.py

FROM dependencies AS build
# Baked into the image. Empty: no model; the server fetches EMBEDWELL_MODEL at its start.
ARG MODEL=all-MiniLM-L6-v2
COPY . .
COPY --from=kernels /src/models/embedwell_models/kernels models/embedwell_models/kernels
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=secret,id=hf_token,target=/run/secrets/hf_token \
    --mount=type=cache,target=/root/.cache/pip \
    mkdir /weights /wheels \
 && KERNELS=compiled pip wheel --no-deps --wheel-dir /wheels . \
 && pip install --no-deps /wheels/*.whl \
 && sha256sum /wheels/*.whl > /wheels.sha256 \
 && if [ -n "$MODEL" ]; then \
      EMBEDWELL_MODEL="$MODEL" EMBEDWELL_CACHE=/weights HF_TOKEN_PATH=/run/secrets/hf_token embedwell pull; \
    fi

FROM ${BASE}
# The user may add models to /weights and changes no file of the image. OpenShift runs it as any user of group 0.
RUN groupadd --system --gid 10001 embedwell \
 && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent embedwell \
 && install --directory --owner embedwell --group root --mode 775 /weights
# Triton compiles kernels for a GPU when the server starts.
ARG TORCH=none
RUN if [ "$TORCH" = cuda ]; then \
      apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; \
    fi
# Large and rarely changed first, so that a change of the code is a small layer.
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /weights /weights
ENV PATH=/opt/venv/bin:$PATH
# podman 4.3 does not notice that a mount has other files, and would keep the layer of an older wheel.
COPY --from=build /wheels.sha256 /opt/venv/
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    PYTHONDONTWRITEBYTECODE=1 pip install --no-cache-dir --no-index --no-deps /wheels/*.whl

ARG MODEL=all-MiniLM-L6-v2
ENV EMBEDWELL_HOST=0.0.0.0 \
    EMBEDWELL_PORT=8080 \
    EMBEDWELL_CACHE=/weights \
    HF_HOME=/weights/huggingface \
    TRITON_CACHE_DIR=/tmp/triton \
    EMBEDWELL_MODEL=${MODEL:-all-MiniLM-L6-v2} \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# deploy/image.sh and the release add the version, the revision and the source.
LABEL org.opencontainers.image.title="embedwell" \
      org.opencontainers.image.description="Self-hosted text embedding server" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
WORKDIR /srv
EXPOSE 8080
STOPSIGNAL SIGTERM
# /live, not /ready: an orchestrator restarts an unhealthy container, and a busy server needs no restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", \
    "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', os.environ['EMBEDWELL_PORT'], timeout=4); c.request('GET', '/live'); exit(c.getresponse().status != 200)"]
# `docker run embedwell serve MODEL` runs a command of embedwell; `docker run embedwell sh`, a program.
ENTRYPOINT ["sh", "-c", "command -v \"$1\" >/dev/null 2>&1 && exec \"$@\"; exec embedwell \"$@\"", "--"]
CMD ["serve"]
