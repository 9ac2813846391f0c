ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS dependencies
# Searched besides PyPI; https://download.pytorch.org/whl/cpu has a torch without gigabytes of CUDA.
ARG PIP_EXTRA_INDEX_URL=
ENV PATH=/opt/venv/bin:$PATH PIP_CONSTRAINT=/src/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
WORKDIR /src
COPY pyproject.toml constraints.txt ./
# Bytecode only of what is imported, and no C++ headers and test programs of torch: 300 MB less.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=cache,target=/root/.cache/pip \
    python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
      print(*project["dependencies"], *project["optional-dependencies"]["otel"], sep="\n")' > requirements.txt \
 && pip install --no-compile -r requirements.txt \
 && python -c 'import click, fastapi, httptools, httpx, huggingface_hub, numpy, orjson, prometheus_client, \
      opentelemetry.exporter.otlp.proto.http.trace_exporter, pydantic_settings, safetensors.torch, tokenizers, torch, uvicorn, uvloop' \
 && python -c 'import importlib, torch; torch.version.cuda and importlib.import_module("torch.nn.attention.varlen")' \
 && cd /opt/venv/lib/python3*/site-packages/torch \
 && rm -rf include test bin/*[tT]est* bin/protoc*

FROM dependencies AS build
# Without a compiler the package is built all the same, and computes on torch alone: slower, no int8.
RUN apt-get update && apt-get install --yes --no-install-recommends g++
# Baked into the image; empty: none, and the server fetches EMBEDWELL_MODEL when it starts.
ARG MODEL=all-MiniLM-L6-v2
COPY . .
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=secret,id=hf_token,target=/run/secrets/hf_token \
    --mount=type=cache,target=/root/.cache/pip \
    mkdir /weights /wheels \
 && pip wheel --no-deps --wheel-dir /wheels . \
 && pip install --no-deps /wheels/*.whl \
 && if [ -n "$MODEL" ]; then \
      EMBEDWELL_MODEL="$MODEL" EMBEDWELL_CACHE=/weights HF_TOKEN_PATH=/run/secrets/hf_token embedwell pull; \
    fi

FROM ${BASE}
# It may add models to /weights, and change no file of the image.
RUN groupadd --system --gid 10001 embedwell \
 && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent embedwell \
 && install --directory --owner embedwell --group embedwell /weights
# Large and rarely changed first, so that a change of the code is a layer of kilobytes.
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /weights /weights
ENV PATH=/opt/venv/bin:$PATH
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps /wheels/*.whl

ARG MODEL=all-MiniLM-L6-v2
ENV EMBEDWELL_HOST=0.0.0.0 \
    EMBEDWELL_PORT=8080 \
    EMBEDWELL_CACHE=/weights \
    HF_HOME=/weights/huggingface \
    EMBEDWELL_MODEL=${MODEL:-all-MiniLM-L6-v2} \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="embedwell" \
      org.opencontainers.image.description="Self-hosted text embedding server" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
USER 10001:10001
WORKDIR /srv
EXPOSE 8080
STOPSIGNAL SIGTERM
# Alive, not ready: an orchestrator restarts what is unhealthy, and a busy server needs no restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", \
    "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', os.environ['EMBEDWELL_PORT'], timeout=4); c.request('GET', '/live'); exit(c.getresponse().status != 200)"]
CMD ["embedwell", "serve"]
