"""Blocks are decoded as llama.cpp's package `gguf` decodes them."""

import gguf
import numpy as np
import pytest

from embedwell_formats.gguf.blocks import BLOCK_TYPES, BlockMatrix, BlockType, Bytes


def random_blocks(kind: BlockType) -> Bytes:
    noise = np.random.default_rng(5)
    blocks = noise.integers(0, 256, (7 * 4, kind.size), dtype=np.uint8)
    for offset in kind.scales:
        scales = noise.normal(size=(len(blocks), 1)).astype("<f2")
        blocks[:, offset : offset + 2] = scales.view(np.uint8)
    return blocks.reshape(7, -1)


@pytest.mark.parametrize("kind", BLOCK_TYPES.values(), ids=list(BLOCK_TYPES))
def test_blocks_are_decoded_as_by_llama_cpp(kind: BlockType) -> None:
    blocks = random_blocks(kind)
    expected = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind.name])
    assert np.array_equal(BlockMatrix(blocks, kind).to_float32(), expected)


@pytest.mark.parametrize("kind", BLOCK_TYPES.values(), ids=list(BLOCK_TYPES))
def test_rows_are_the_same_alone_and_together(kind: BlockType) -> None:
    matrix = BlockMatrix(random_blocks(kind), kind)
    every = matrix.to_float32()
    assert matrix.shape == every.shape == (7, 4 * kind.numbers)
    assert np.array_equal(matrix[np.array([5, 2])], every[[5, 2]])
    assert np.array_equal(matrix.rows(2, 4).to_float32(), every[2:4])


@pytest.mark.parametrize("kind", BLOCK_TYPES.values(), ids=list(BLOCK_TYPES))
def test_a_scale_that_is_not_finite_is_seen(kind: BlockType) -> None:
    blocks = random_blocks(kind)
    assert BlockMatrix(blocks, kind).is_finite()
    blocks[3, kind.scales[-1] + 1] = 0x7C
    assert not BlockMatrix(blocks, kind).is_finite()
