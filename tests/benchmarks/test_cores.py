"""The division of a forward pass among many threads."""

import pytest

from benchmarks.cores import MODELS, TEXTS, THREADS, Division, divide, main
from tests.models.built import BUILT

FLOAT32 = [each for each in BUILT if each.values[1] == "float32"]
built = pytest.mark.parametrize(("kernels", "dtype"), FLOAT32)
models = pytest.mark.parametrize("model", MODELS)


@built
@models
@pytest.mark.parametrize(("text", "worst"), [("128", 2.2), ("512", 1.5), ("8192", 1.5)])
def test_no_thread_has_far_more_to_do_than_the_mean(
    kernels: str, dtype: str, model: str, text: str, worst: float
) -> None:
    # Few tokens have too few blocks of queries for many threads.
    for threads in THREADS:
        found = divide(MODELS[model], TEXTS[text], threads, kernels)
        assert 1 <= found.products < 1.5 and 1 <= found.attention < worst, (threads, found)


@built
@models
def test_texts_of_a_batch_are_divided_equally(kernels: str, dtype: str, model: str) -> None:
    for threads in THREADS:
        found = divide(MODELS[model], TEXTS["64 x 128"], threads, kernels)
        assert 1 <= found.products < 1.1 and 1 <= found.attention < 1.1, (threads, found)


@built
@models
def test_few_tokens_are_for_few_threads(kernels: str, dtype: str, model: str) -> None:
    found = [divide(MODELS[model], TEXTS["9"], threads, kernels).threads for threads in THREADS]
    columns = MODELS[model].hidden_size // 32
    assert found == [min(threads, columns) for threads in THREADS]


@built
@models
def test_a_longer_text_takes_no_more_memory_of_each_thread(
    kernels: str, dtype: str, model: str
) -> None:
    def per_thread(length: int) -> float:
        few, many = (divide(MODELS[model], [length], threads, kernels) for threads in (16, 64))
        return (many.bytes - few.bytes) / 48

    assert per_thread(32768) == per_thread(131072)


def test_a_row_has_the_threads_the_balances_and_the_memory() -> None:
    assert Division(12, 3_400_000, 1.25, 1.0).row() == ["12", "1.25", "1.00", "3 MB"]


@pytest.mark.skipif(not FLOAT32, reason="the compiled kernels count, and there are none")
def test_the_table_has_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(MODELS) * len(TEXTS) * len(THREADS)
