"""What `make test` leaves to `make check`: files that cover little for their seconds."""

import fnmatch
import functools
from pathlib import Path

ROOT = Path(__file__).parent
CASES = 2  # of each test that has several

LEFT_OUT = {  # subjects, with patterns of their files
    "images and pages": (
        "models/vision/*",
        *("service/test_*images*.py", "service/test_pages.py", "service/test_multimodal*"),
    ),
    "rare families": (
        "models/rare/*",
        *(
            f"models/families/test_{name}.py"
            for name in [
                "batches",
                "config_keys",
                "installed",
                "jina_bert",
                "jina_v5",
                "nomic_experts",
            ]
        ),
    ),
    "other formats of files": (
        *(f"models/formats/{name}/*" for name in ["gguf", "onnx_export", "quantized"]),
        "models/classic/*",
        *(f"models/hub/test_{name}.py" for name in ["bundles", "huggingface", "sources"]),
        "models/tokenizer/loading/test_tokenizer_config.py",
    ),
    "commands other than serve": (
        *("service/bulk/*", "service/classic_service/*", "service/desktop/*", "service/lab/*"),
        *("service/cli/test_without_torch.py", "service/cli/test_unreadable_files.py"),
        *(
            "service/test_*page.py",
            "docs/test_retrieval_page.py",
            "service/batches/test_service.py",
        ),
    ),
    "the playground": ("service/playground/*",),
    "several processes and kinds of models": (
        "service/otel/test_tracing.py",
        *(f"models/test_{name}.py" for name in ["fork", "without_torch"]),
        *("models/precision/test_measurement_cache.py", "models/prompts/test_formatted_pairs.py"),
        *(f"models/model_files/test_{name}.py" for name in ["decoder_rerankers", "listwise"]),
        *(
            f"service/launch/test_{name}.py"
            for name in [
                "announcements",
                "idle_exit",
                "processes",
                "reload",
                "socket_activation",
                "unix_socket",
                "workers",
            ]
        ),
        *(
            f"service/test_{name}.py"
            for name in [
                "contract",
                "devices",
                "every_kind_of_model",
                "families",
                "hostile",
                "older_encoders",
                "segmented_tokenizers",
                "sentence_models",
                "several_models",
                "tasks",
            ]
        ),
        "service/routes/test_rerank_*.py",
    ),
    "attacks, GPUs and compilers": (
        *("attacks/*", "gpu/*", "models/torch_backend/triton_kernels/*", "without_torch/*"),
        *("models/test_arm.py", "models/test_clang.py"),
    ),
    "clients, deployment and benchmarks": (
        *("benchmarks/*", "clients/*", "deploy/*", "examples/*"),
        *("service/client/test_local_server.py", "test_distributions.py", "test_install.py"),
    ),
}

OF_ALL_KERNELS = {  # tests of kernels that `make test` compiles on few processors
    "test_a_library_of_other_sources_is_not_called",
    "test_kernels_for_a_slow_bfloat16_compute_this_precision_alone",
}


@functools.cache
def is_left_out(path: Path) -> bool:
    """Whether `make test` leaves a file of tests to `make check`."""
    if not path.is_relative_to(ROOT):
        return False
    name = path.relative_to(ROOT).as_posix()
    return any(fnmatch.fnmatch(name, each) for patterns in LEFT_OUT.values() for each in patterns)
