"""A real server of S3's protocol."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

_KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_bucket(name: str) -> Iterator[dict[str, str]]:
    """Run moto's server with a bucket, and yield the environment of its clients."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **_KEYS}) as process:
        assert process.stderr is not None
        try:
            match = None
            while match is None:
                line = process.stderr.readline().decode()
                assert line, "moto's server has ended"
                match = re.search(r"Running on (http://\S+)", line)
            log = process.stderr
            url = match.group(1)
            urlopen(Request(f"{url}/{name}", method="PUT")).close()
            yield {**_KEYS, "AWS_ENDPOINT_URL": url}
            log.close()
        finally:
            process.kill()
