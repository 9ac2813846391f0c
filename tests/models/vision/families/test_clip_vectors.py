"""Tests of the vectors that a CLIP gives of texts, against sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, processors
from transformers import (
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTextModel,
    CLIPTextModelWithProjection,
)

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import SIZES, Case, write
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.families.files import edit
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.tiny import VOCABULARY, write_tokenizer

END = "<|endoftext|>"
LAST = len(VOCABULARY)  # its id, the largest
TEXT = {
    **SIZES,
    "vocab_size": LAST + 1,
    "max_position_embeddings": 40,
    **{"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": LAST},
}
SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
VISION = {**SMALL, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
TEXTS = ["the license", "x", "a copyright of this work, such as it is", "you " * 60]
# An end inside of a text: what follows it is not read.
ODD = [*TEXTS, f"the license {END} of this work", END, f"{END} the license"]


def write_ended(folder: Path) -> None:
    """A tokenizer that puts the largest id at the end of a text, as CLIP's does."""
    write_tokenizer(folder)
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.add_special_tokens([END])
    rust.post_processor = processors.TemplateProcessing(
        single=f"[CLS] $A {END}", special_tokens=[("[CLS]", 2), (END, LAST)]
    )
    rust.save(file)
    options = folder / "tokenizer_config.json"
    options.write_text(json.dumps(json.loads(options.read_text()) | {"model_max_length": 40}))


def whole(folder: Path, **text: Any) -> Path:
    options = {"vision_config": VISION, "projection_dim": 24}
    write(Case("clip", options, {"text_config": {**TEXT, **text}}, model=CLIPModel), folder)
    write_ended(folder)
    square = {"height": 8, "width": 8}
    CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size=square).save_pretrained(folder)
    return folder


def of_texts(folder: Path, model: Any) -> Any:
    written = write(Case("clip_text_model", {"projection_dim": 24}, TEXT, model=model), folder)
    write_ended(folder)
    return written


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def theirs(folder: Path) -> Expected:
    # One by one: padded with the token of id 0, as its tokenizer would not.
    encode: Any = SentenceTransformer(str(folder), device="cpu").encode
    return exactly(encode)(ODD, batch_size=1)


@pytest.mark.parametrize("end", [LAST, 2], ids=["today", "of older files"])
def test_a_model_with_images_gives_projected_features(end: int, tmp_path: Path) -> None:
    folder = whole(tmp_path, eos_token_id=end)
    ours, expected = load(folder), theirs(folder)
    assert_near(ours.embed(ODD), expected)
    assert ours.dim == ModelDescription.read(folder).dim == expected.values.shape[1] == 24
    recipe = ours.recipe
    assert (recipe.pooling, recipe.pooling_source) == (("lasttoken",), "model")


def test_a_text_is_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    ours = load(whole(tmp_path))
    alone = np.concatenate([ours.embed([text]) for text in ODD])
    assert ours.embed(ODD).tobytes() == alone.tobytes()


def test_a_model_that_sentence_transformers_saved_gives_the_same(tmp_path: Path) -> None:
    model = SentenceTransformer(str(whole(tmp_path / "plain")), device="cpu")
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    assert_near(load(tmp_path / "saved").embed(ODD), theirs(tmp_path / "plain"))


def test_the_module_of_older_releases_gives_the_same_and_what_follows_is_applied(
    tmp_path: Path,
) -> None:
    whole(tmp_path / "0_CLIPModel")
    older = {"type": "sentence_transformers.models.CLIPModel", "path": "0_CLIPModel", "name": "0"}
    (tmp_path / "modules.json").write_text(json.dumps([older, NORMALIZE]))
    assert_near(load(tmp_path).embed(ODD), theirs(tmp_path))


def test_a_text_encoder_with_a_projection_gives_its_features(tmp_path: Path) -> None:
    model = of_texts(tmp_path, CLIPTextModelWithProjection)
    ours = load(tmp_path)
    rows = ours.tokenize(ODD)

    @exactly
    def features() -> Any:
        return torch.stack([model(input_ids=torch.tensor([row])).text_embeds[0] for row in rows])

    assert_near(ours.embed(ODD), features())


@pytest.mark.parametrize("model", [CLIPTextModel, CLIPTextModelWithProjection])
def test_a_text_encoder_gives_the_mean_where_modules_or_the_operator_say_so(
    model: Any, tmp_path: Path
) -> None:
    of_texts(tmp_path, model)
    expected = theirs(tmp_path)  # which knows no text encoder with a projection
    assert_near(load(tmp_path, pooling="mean").embed(ODD), expected)
    (tmp_path / "modules.json").write_text(json.dumps([TRANSFORMER, POOLING]))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    assert_near(load(tmp_path).embed(ODD), expected)


def test_a_text_encoder_without_a_projection_gives_the_mean(tmp_path: Path) -> None:
    of_texts(tmp_path, CLIPTextModel)
    assert_near(load(tmp_path).embed(ODD), theirs(tmp_path))
    assert ModelDescription.read(tmp_path).recipe.pooling_source == "assumed"


def test_a_pooling_over_a_model_with_images_is_refused(tmp_path: Path) -> None:
    whole(tmp_path)
    with pytest.raises(ModelError, match="projects the end of a text"):
        ModelDescription.read(tmp_path, ModelOptions(pooling="mean"))
    (tmp_path / "modules.json").write_text(json.dumps([TRANSFORMER, POOLING]))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    with pytest.raises(ModelError, match="projects the end of a text"):
        ModelDescription.read(tmp_path)


def test_the_module_of_older_releases_is_of_a_model_with_images(tmp_path: Path) -> None:
    of_texts(tmp_path, CLIPTextModel)
    older = {"type": "sentence_transformers.models.CLIPModel", "path": ""}
    (tmp_path / "modules.json").write_text(json.dumps([older]))
    with pytest.raises(ModelError, match="CLIPModel is only for models of texts and images"):
        ModelDescription.read(tmp_path)


def test_a_projection_of_another_width_is_refused(tmp_path: Path) -> None:
    edit(whole(tmp_path), projection_dim=23)
    with pytest.raises(ModelError, match=r"text_projection\.weight.*\(24, 64\).*\(23, 64\)"):
        load(tmp_path)


def test_the_projection_is_counted(tmp_path: Path) -> None:
    of_texts(tmp_path / "without", CLIPTextModel)
    of_texts(tmp_path / "with", CLIPTextModelWithProjection)
    counted = [
        Footprint.of(ModelDescription.read(tmp_path / name)).parameters
        for name in ("without", "with")
    ]
    assert counted[1] - counted[0] == 24 * 64
