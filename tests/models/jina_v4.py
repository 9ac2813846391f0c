"""Jina v4 of random weights, as it is published: a Qwen2.5-VL, a projection, and adapters."""

import re
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from embedwell_models.config.json_config import read_json
from tests.models.families.exact import exactly
from tests.models.families.files import change
from tests.models.qwen2_vl import AREA, PROCESSOR, states_of_page, write_qwen2_vl
from tests.models.qwen3_vl import save, tokenized

TASKS = ["retrieval", "text-matching", "code"]
RANK, ALPHA, WIDTH = 2, 3, 16
PAGE = (
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|>\n"
)
_BOUNDS = {"min_pixels": 4 * AREA, "max_pixels": 40 * AREA}
_SIZE = {"shortest_edge": 4 * AREA, "longest_edge": 40 * AREA}
_ENDS = "<|vision_start|>", "<|vision_end|>"
_HEAD = "multi_vector_projector"
_ADAPTED = re.compile(r"layers\..*(down|gate|up|k|q|v|o)_proj")
_CODE: dict[str, Any] = {
    "architectures": ["JinaEmbeddingsV4Model"],
    "auto_map": {
        "AutoConfig": "configuration_jina_embeddings_v4.JinaEmbeddingsV4Config",
        "AutoModel": "modeling_jina_embeddings_v4.JinaEmbeddingsV4Model",
    },
    **{"single_vector_pool_strategy": "mean", "multi_vector_projector_dim": WIDTH},
    **{"task_names": TASKS, "matryoshka_dims": [16, 32, 64], "truncate_dim": None},
}
# The published file, with other sizes.
_ADAPTER: dict[str, Any] = {
    **{"alpha_pattern": {}, "auto_mapping": None, "bias": "none", "corda_config": None},
    **{"eva_config": None, "exclude_modules": ".*visual.*", "fan_in_fan_out": False},
    **{"inference_mode": True, "init_lora_weights": "gaussian", "layer_replication": None},
    **{"layers_pattern": None, "layers_to_transform": None, "loftq_config": {}},
    **{"lora_alpha": ALPHA, "lora_bias": False, "lora_dropout": 0.1, "megatron_config": None},
    **{"megatron_core": "megatron.core", "modules_to_save": None, "peft_type": "LORA", "r": RANK},
    **{"rank_pattern": {}, "revision": None, "task_type": "FEATURE_EXTRACTION"},
    "target_modules": "(.*(model).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj).*$|"
    ".*(single_vector_projector|multi_vector_projector).*$)",
    **{"trainable_token_indices": None, "use_dora": False, "use_rslora": False},
}


class JinaV4:
    """Reference: transformers' Qwen2.5-VL, and the adapters and outputs of the published code."""

    def __init__(self, folder: Path, model: Any) -> None:
        self._folder, self._model, self._task = folder, model, ""
        noise = torch.Generator().manual_seed(4)
        self.head = nn.Linear(64, WIDTH)
        for parameter in self.head.parameters():
            nn.init.normal_(parameter, std=0.3, generator=noise)
        text = model.model.language_model
        adapted = {
            f"model.language_model.{name}": module
            for name, module in text.named_modules()
            if _ADAPTED.search(name)
        }
        self.factors = dict[str, Tensor]()
        for name, module in {**adapted, _HEAD: self.head}.items():
            self._adapt(name, module, noise)

    def _adapt(self, name: str, module: nn.Module, noise: torch.Generator) -> None:
        assert isinstance(module, nn.Linear)
        rows, columns = module.weight.shape
        pairs = dict[str, tuple[Tensor, Tensor]]()
        for task in TASKS:
            shapes = (RANK, columns), (rows, RANK)
            down, up = (0.3 * torch.randn(shape, generator=noise) for shape in shapes)
            pairs[task] = down, up
            prefix = f"base_model.model.{name}"
            self.factors[f"{prefix}.lora_A.{task}.weight"] = down
            self.factors[f"{prefix}.lora_B.{task}.weight"] = up

        def add(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            if not self._task:
                return output
            down, up = pairs[self._task]
            return output + given[0] @ down.T @ up.T * (ALPHA / RANK)

        module.register_forward_hook(add)

    @property
    def parameters(self) -> int:
        """Their number, without the adapters."""
        every = [*self._model.model.parameters(), *self.head.parameters()]
        return sum(parameter.numel() for parameter in every)

    @exactly
    def vector(self, task: str, text: str, image: Image.Image | None = None) -> Any:
        """The vector of a text or an image: (D,)."""
        states = self._states(task, text, image)
        if image is not None:  # from <|vision_start|> to <|vision_end|>
            ids = tokenized(self._folder, text)
            first, last = (tokenized(self._folder, mark)[0] for mark in _ENDS)
            behind = len(ids) - 1 - ids.index(last)
            states = states[ids.index(first) : len(states) - behind]
        return nn.functional.normalize(states.mean(dim=0), dim=0)

    @exactly
    def token_vectors(self, task: str, text: str, image: Image.Image | None = None) -> Any:
        """The vectors of the tokens of a text or an image: (T, WIDTH)."""
        return nn.functional.normalize(self.head(self._states(task, text, image)), dim=-1)

    def _states(self, task: str, text: str, image: Image.Image | None) -> Tensor:
        self._task = task
        return states_of_page(self._folder, self._model, text, image)


def write_jina_v4(folder: Path, **sizes: Any) -> JinaV4:
    """Save a model with its adapters; return the reference. sizes: of the text encoder."""
    model = write_qwen2_vl(folder, model_type="qwen2_5_vl", **sizes)
    reference = JinaV4(folder, model)
    save(folder, "preprocessor_config.json", {**PROCESSOR, **_BOUNDS, "size": _SIZE})
    head = {f"{_HEAD}.{name}": each.detach() for name, each in reference.head.named_parameters()}
    change(folder, lambda tensors: {**tensors, **head})
    config = read_json(folder / "config.json")
    first, last = (tokenized(folder, mark)[0] for mark in _ENDS)
    ends = {"vision_start_token_id": first, "vision_end_token_id": last}
    save(folder, "config.json", {**config, **_CODE, **ends})
    adapters = folder / "adapters"
    adapters.mkdir()
    save_file(reference.factors, adapters / "adapter_model.safetensors")
    save(adapters, "adapter_config.json", _ADAPTER)
    return reference


def merge(folder: Path, task: str) -> dict[str, Tensor]:
    """What the adapter of a task adds to matrices, by their names."""
    factors = load_file(folder / "adapters/adapter_model.safetensors")
    marked = f".lora_B.{task}.weight"
    return {
        name.removeprefix("base_model.model.").replace(marked, ".weight"): up
        @ factors[name.replace("lora_B", "lora_A")]
        * (ALPHA / RANK)
        for name, up in factors.items()
        if name.endswith(marked)
    }
