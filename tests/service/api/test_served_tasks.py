"""The model of each task, and the tasks of each model."""

import pytest

from embedwell.api.served_tasks import ServedTasks
from embedwell.errors import BadRequest

TASKS = ServedTasks(
    [("bert", None), ("jina:a", "a"), ("jina:b", "b"), ("other", "a"), ("other:b", "b")]
)


@pytest.mark.parametrize(
    ("model", "task", "chosen"),
    [(1, "a", 1), (1, "b", 2), (2, "a", 1), (3, "a", 3), (3, "b", 4), (0, "separation", 0)],
)
def test_a_task_chooses_among_the_models_of_one_name(model: int, task: str, chosen: int) -> None:
    assert TASKS.find(model, task) == chosen


def test_the_tasks_of_a_model_are_those_of_its_name() -> None:
    assert [TASKS.of(model) for model in range(3)] == [[], ["a", "b"], ["a", "b"]]


@pytest.mark.parametrize(
    ("model", "task", "listed"),
    [(1, "separation", "'a', 'b'"), (0, "a", "'retrieval.query', 'retrieval.passage'")],
)
def test_the_error_of_an_unknown_task_lists_those_there_are(
    model: int, task: str, listed: str
) -> None:
    with pytest.raises(BadRequest, match=f"no task '{task}'; .*{listed}") as raised:
        TASKS.find(model, task)
    assert (raised.value.code, raised.value.param) == ("unknown_task", "task")
