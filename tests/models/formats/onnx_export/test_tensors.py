"""Tensors of exports have the names, shapes and numbers of the checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from transformers import AutoModel, BertConfig, PreTrainedConfig, Qwen3Config

from embedwell_formats.onnx_export.tensors import OnnxWeights, sources
from embedwell_models.checkpoint.tables import decoded
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.models.onnx_files import Numbers, constant, node, tensor, write

# Exports of PyTorch 2.13 with dynamo=False and dynamo=True, without graph annotations other than
# the names of modules; the last is a whole model of sentence-transformers 6 with a Dense. The
# weights follow from their names, see `weight`.
DATA = Path(__file__).parents[3] / "data"
SIZES: dict[str, Any] = {
    **{"num_key_value_heads": 1, "head_dim": 4},
    **{"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 12, "vocab_size": 20, "max_position_embeddings": 16},
}
MATRIX = np.arange(6, dtype="<f4").reshape(2, 3)
TURNED = np.ascontiguousarray(MATRIX.T)
BIAS = np.ones(2, "<f4")


def weight(name: str, shape: Sequence[int]) -> Floats:
    """The weight of a name in the exported models."""
    integers = np.random.default_rng(crc32(name.encode())).integers(-300, 300, shape)
    return integers.astype(np.float32) / np.float32(500)


def read(path: Path) -> dict[str, Floats]:
    return {name: decoded(stored.array) for name, stored in OnnxWeights(path).tensors()}


@pytest.mark.parametrize(
    ("file", "config"),
    [
        ("bert-traced.onnx", BertConfig(**SIZES)),
        ("qwen3-exported.onnx", Qwen3Config(**SIZES)),
        ("sentence-transformer-traced.onnx", BertConfig(**SIZES)),
    ],
)
def test_a_real_export_has_the_weights_of_its_model(file: str, config: PreTrainedConfig) -> None:
    model = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    expected = {name: tuple(value.shape) for name, value in model.named_parameters()}
    actual = read(DATA / file)
    assert {name for name in expected if not name.startswith("pooler.")} == actual.keys()
    for name, numbers in actual.items():
        np.testing.assert_array_equal(numbers, weight(name, expected[name]), err_msg=name)
    for name, source in sources(DATA / file).items():
        assert source.shape == expected[name]


@pytest.mark.parametrize(
    ("nodes", "stored"),
    [
        ([node("MatMul", ["x", "w"], name="/layer.0/query/MatMul")], TURNED),
        ([node("MatMul", ["x", "w"], name="/layer.0/layer.0.query/MatMul")], TURNED),
        ([node("MatMul", ["x", "w"], name="node_linear_3", module="layer.0.query")], TURNED),
        ([node("Gemm", ["x", "w", "layer.0.query.bias"], name="Gemm_12")], TURNED),
        ([node("Gemm", ["x", "w", "b"], name="/layer.0/query/Gemm", transposes=True)], MATRIX),
        (
            [
                node("MatMul", ["x", "w"], "1145", name="MatMul_12"),
                node("Add", ["layer.0.query.bias", "1145"], "1146", name="Add_13"),
            ],
            TURNED,
        ),
        (
            [
                node("Add", ["1145", "layer.0.query.bias"], "1146"),
                node("MatMul", ["x", "w"], "1145"),
            ],
            TURNED,
        ),
    ],
    ids=["traced", "sequential", "exported", "gemm", "plain gemm", "unnamed", "unnamed, swapped"],
)
def test_a_matrix_without_a_name_has_that_of_its_layer(
    tmp_path: Path, nodes: list[bytes], stored: Numbers
) -> None:
    constants = [tensor("w", stored), tensor("layer.0.query.bias", BIAS)]
    actual = read(write(tmp_path / "model.onnx", nodes, constants))
    assert actual.keys() == {"layer.0.query.weight", "layer.0.query.bias"}
    np.testing.assert_array_equal(actual["layer.0.query.weight"], MATRIX)


def test_a_named_matrix_is_as_in_the_checkpoint(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", ["x", "pooler.weight"], name="/pooler/Gemm", transposes=True),
        node("Transpose", ["auto_model.dense.weight"], "t", name="/auto_model/dense/Transpose"),
        node("MatMul", ["x", "t"], name="/auto_model/dense/MatMul"),
    ]
    constants = [tensor("pooler.weight", MATRIX), tensor("auto_model.dense.weight", MATRIX + 1)]
    actual = read(write(tmp_path / "model.onnx", nodes, constants))
    assert actual.keys() == {"pooler.weight", "dense.weight"}
    np.testing.assert_array_equal(actual["dense.weight"], MATRIX + 1)
    np.testing.assert_array_equal(actual["pooler.weight"], MATRIX)


def test_equal_tensors_that_are_stored_once_have_all_their_names(tmp_path: Path) -> None:
    nodes = [
        node("Gather", ["decoder.weight", "x"], name="/embeddings/words/Gather"),
        node("Gather", ["embeddings.segments.weight", "y"], name="/embeddings/Gather"),
        node("Identity", ["norm.bias"], "other.norm.bias", name="Identity_3"),
    ]
    constants = [tensor("decoder.weight", MATRIX), tensor("norm.bias", BIAS)]
    constants.append(tensor("embeddings.segments.weight", MATRIX))
    actual = read(write(tmp_path / "model.onnx", nodes, constants))
    assert len(actual) == 5
    np.testing.assert_array_equal(actual["embeddings.words.weight"], MATRIX)
    np.testing.assert_array_equal(actual["other.norm.bias"], BIAS)


def test_a_layer_that_is_used_twice_has_one_matrix(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "val_1"], "y", module="layer.query"),
        node("MatMul", ["y", "val_2"], "z", module="layer.query"),
    ]
    equal = [tensor("val_1", TURNED), tensor("val_2", TURNED)]
    actual = read(write(tmp_path / "model.onnx", nodes, equal))
    np.testing.assert_array_equal(actual["layer.query.weight"], MATRIX)
    different = [tensor("val_1", TURNED), tensor("val_2", TURNED + 1)]
    write(tmp_path / "model.onnx", nodes, different)
    with pytest.raises(ModelError, match=r"several matrices of layer\.query\.weight: give the fol"):
        read(tmp_path / "model.onnx")


def test_weights_may_be_constant_nodes(tmp_path: Path) -> None:
    nodes = [
        constant("layer.0.query.bias", BIAS),
        constant("w", TURNED),
        constant("/layer.0/Constant_output_0", MATRIX),
        node("MatMul", ["x", "w"], name="/layer.0/query/MatMul"),
    ]
    actual = read(write(tmp_path / "model.onnx", nodes, []))
    assert actual.keys() == {"layer.0.query.weight", "layer.0.query.bias"}
    np.testing.assert_array_equal(actual["layer.0.query.weight"], MATRIX)


def test_weights_may_be_converted_in_the_graph(tmp_path: Path) -> None:
    half = TURNED.astype("<f2")
    nodes = [
        node("Cast", ["w"], "wide"),
        node("Cast", ["layer.0.query.bias"], "wide_bias"),
        node("MatMul", ["x", "wide"], "y", name="MatMul_3"),
        node("Add", ["y", "wide_bias"], "z"),
        node("Cast", ["table"], "wide_table"),
        node("Gather", ["wide_table", "ids"], name="/embeddings/Gather"),
    ]
    constants = [tensor("w", half), tensor("layer.0.query.bias", BIAS.astype("<f2"))]
    actual = read(write(tmp_path / "model.onnx", nodes, constants))
    assert actual.keys() == {"layer.0.query.weight", "layer.0.query.bias"}
    np.testing.assert_array_equal(actual["layer.0.query.weight"], MATRIX)


@pytest.mark.parametrize("scope", ["/0/query/MatMul", "/0/model/query/MatMul"])
def test_an_encoder_inside_of_a_whole_model_has_its_own_names(tmp_path: Path, scope: str) -> None:
    nodes = [node("MatMul", ["x", "w"], name=scope)]
    constants = [tensor("w", TURNED), tensor("0.model.query.bias", BIAS)]
    actual = read(write(tmp_path / "model.onnx", nodes, constants))
    assert actual.keys() == {"query.weight", "query.bias"}
    np.testing.assert_array_equal(actual["query.weight"], MATRIX)


def test_constants_of_the_graph_are_no_tensors(tmp_path: Path) -> None:
    names = ["val_3", "/layer.0/Constant_output_0", "onnx::Mul_7", "1145"]
    names += ("rotary_emb.inv_freq", "layers.0.rotary_emb.cos_cached", "embed_tokens.embed_scale")
    nodes = [node("MatMul", ["x", "onnx::Mul_7"], name="/MatMul")]
    nodes.append(node("Gather", ["val_3", "x"], name="/layer.0/Gather"))
    nodes.append(node("Gather", [names[5], "x"], name="/layers.0/rotary_emb/Gather"))
    constants = [tensor(name, MATRIX) for name in names]
    constants.append(tensor("embeddings.position_ids", np.arange(4)))
    assert read(write(tmp_path / "model.onnx", nodes, constants)) == {}


@pytest.mark.parametrize(
    ("stored", "field", "kind"),
    [
        (MATRIX, 9, "F32"),
        (MATRIX, 4, "F32"),
        (MATRIX.astype("<f2"), 9, "F16"),
        ((MATRIX.view("<u4") >> 16).astype("<u2"), 9, "BF16"),
    ],
    ids=["float32", "float_data", "float16", "bfloat16"],
)
def test_types_of_numbers(tmp_path: Path, stored: Numbers, field: int, kind: str) -> None:
    nodes = [node("MatMul", ["x", "w"], name="/query/MatMul")]
    turned = np.ascontiguousarray(stored.T)
    constants = [tensor("norm.weight", stored, raw=field), tensor("w", turned, raw=field)]
    path = write(tmp_path / "model.onnx", nodes, constants)
    assert [each.dtype for _, each in OnnxWeights(path).tensors()] == [kind, kind]
    for numbers in read(path).values():
        np.testing.assert_array_equal(numbers, MATRIX)
        assert numbers.flags.c_contiguous and numbers.flags.aligned


@pytest.mark.parametrize(
    ("operator", "domain", "message"),
    [
        (
            "MatMulInteger",
            "",
            r"is quantised \(MatMulInteger\).*model\.onnx of the same repository",
        ),
        ("DequantizeLinear", "", r"is quantised \(DequantizeLinear\)"),
        ("MatMulNBits", "com.microsoft", r"is quantised \(MatMulNBits\)"),
        ("Attention", "com.microsoft", r"was optimised for ONNX Runtime \(Attention\).*original"),
    ],
)
def test_graphs_without_the_weights_of_the_checkpoint_are_refused(
    tmp_path: Path, operator: str, domain: str, message: str
) -> None:
    nodes = [node(operator, ["x", "norm.weight"], name="/query/quant", domain=domain)]
    path = write(tmp_path / "model.onnx", nodes, [tensor("norm.weight", MATRIX)])
    with pytest.raises(ModelError, match=message):
        read(path)
