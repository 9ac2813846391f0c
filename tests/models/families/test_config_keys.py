"""Each value of config.json has the effect that it has in transformers, is refused or logged."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers.initialization import no_init_weights

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.errors import ModelError
from tests.models.classic.cases import CANINE, FUNNEL, MOBILEBERT
from tests.models.families.checkpoint import Case, custom_layers_encoder, encoder, states, write
from tests.models.families.config_changes import Change, all_changes, apply
from tests.models.families.every import EVERY
from tests.models.families.exact import Expected, one_thread, widened

ROWS = [torch.arange(7, 19), torch.arange(5, 35)]  # no text is longer than the least limit
OWN_ENCODERS = [CANINE, FUNNEL, MOBILEBERT]
PROJECTION = "embedding_projection.weight"  # EmbeddingGemma 2's, which is a module of ours


class Checkpoint:
    """A saved model, and its config.json of all options, whose values are changed."""

    def __init__(self, case: Case, folder: Path) -> None:
        model = write(case, folder)
        self.folder, self._kind, self.own = folder, type(model), case in OWN_ENCODERS
        self._tensors = model.state_dict()
        self._path = folder / "config.json"
        stated = {**model.config.to_dict(), **read_json(self._path)}
        names = model.config.attribute_map.items()
        further = {other: stated[own] for other, own in names if own in stated}
        further |= {"is_causal": True} if families.read(folder).config.causal else {}
        stated = {**further, **stated}
        self.options: dict[str, Any] = json.loads(json.dumps(stated, default=str))
        self.put()

    def put(self, *changes: Change) -> None:
        """Write config.json with some changes."""
        self._path.unlink()  # a file that is emptied is written to the disk when it is closed
        self._path.write_text(json.dumps(apply(self.options, changes)), encoding="utf-8")

    def ours(self) -> Tensor:
        """Compute our last states; raises ModelError."""
        last = families.read(self.folder).config.num_layers
        loaded = (custom_layers_encoder if self.own else encoder)(self.folder)
        last_states = torch.cat(states(loaded, ROWS, last))
        tensors = load_file(self.folder / "model.safetensors")
        return last_states @ tensors[PROJECTION].T if PROJECTION in tensors else last_states

    def theirs(self) -> Expected | None:
        """Compute transformers' last states, exactly once that is needed; None if it cannot."""
        rounded = self.their_values()
        return None if rounded is None else Expected(rounded, self._exact_values)

    def their_values(self, strict: bool = False) -> Tensor | None:
        """Compute transformers' last states in float32; None if it cannot.

        strict: None, too, if the model needs other tensors than the checkpoint's.
        """
        return self._by_transformers(_rounded, strict)

    def _exact_values(self) -> Tensor:
        values = self._by_transformers(_exact)
        assert values is not None
        return values

    def _by_transformers(
        self, compute: Callable[[Any], Tensor], strict: bool = False
    ) -> Tensor | None:
        # Reading and comparing the file, as `from_pretrained` does, takes longer than all the rest.
        kind: Any = self._kind.config_class
        try:
            config = kind.from_pretrained(self.folder, attn_implementation="eager")
            with no_init_weights():
                model = self._kind(config).train(False)
            if model.load_state_dict(self._tensors, strict=strict).missing_keys:
                model = self._kind(config).train(False)
                model.load_state_dict(self._tensors, strict=strict)
            return compute(getattr(model, "base_model", model))
        except Exception:  # the library raises no narrower exception
            return None


def _last_states(model: Any) -> Tensor:
    outputs = [model(input_ids=row[None], return_dict=True) for row in ROWS]
    return torch.cat([each.last_hidden_state[0] for each in outputs])


def _exact(body: Any) -> Tensor:
    """Compute the last states in float64 by a model that no other computation needs."""
    with widened(body):
        return _last_states(body)


@torch.inference_mode()
def _rounded(body: Any) -> Tensor:
    return _last_states(body)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def assert_refused_rightly(checkpoint: Checkpoint, change: Change, error: ModelError) -> None:
    """Assert that an error names a key, or that transformers cannot read the checkpoint either.

    Of two keys that contradict each other, it may name the other one.
    """
    keys = {*change.names, *checkpoint.options}
    if not keys & {*re.findall(r"\w+", str(error))}:
        assert checkpoint.their_values(strict=True) is None, f"{change}: {error}"


def ignored(checkpoint: Checkpoint) -> list[Change]:
    """Return the changes that leave our encoder as it is; assert that all others are right."""
    spec, same = families.read(checkpoint.folder), []
    usual = checkpoint.ours() if checkpoint.own else None  # such an encoder reads keys itself
    for change in all_changes(checkpoint.options):
        checkpoint.put(change)
        try:
            changed = families.read(checkpoint.folder)
            if changed == spec and (usual is None or torch.equal(checkpoint.ours(), usual)):
                same.append(change)
            elif change.keys[0] not in changed.unread_keys:  # which the log tells
                ours, theirs = checkpoint.ours(), checkpoint.theirs()
                assert theirs is None or theirs.is_near(ours), str(change)
        except ModelError as error:
            assert_refused_rightly(checkpoint, change, error)
    return same


def rounds(changes: Iterable[Change]) -> list[list[Change]]:
    """Divide changes into lists, in each of which a key is changed once."""
    lists: list[dict[tuple[str, ...], Change]] = []
    for change in changes:
        free = next((each for each in lists if change.keys not in each), None)
        if free is None:
            lists.append(free := {})
        free[change.keys] = change
    return [[*each.values()] for each in lists]


def find_effect(
    checkpoint: Checkpoint, changes: Sequence[Change], usual: Expected
) -> Change | None:
    """Return one of the changes that changes transformers' states; None if none does.

    A change that transformers refuses has no effect, and is searched for to try the others.
    """
    checkpoint.put(*changes)
    theirs = checkpoint.their_values()
    if theirs is not None and usual.is_near(theirs):
        return None
    if len(changes) == 1:
        return None if theirs is None else changes[0]
    middle = len(changes) // 2
    first = find_effect(checkpoint, changes[:middle], usual)
    return first or find_effect(checkpoint, changes[middle:], usual)


@pytest.mark.full(after=2)
@pytest.mark.parametrize("case", [*EVERY, *OWN_ENCODERS], ids=str)
def test_each_value_has_the_effect_it_has_in_transformers(case: Case, tmp_path: Path) -> None:
    checkpoint = Checkpoint(case, tmp_path)
    usual = checkpoint.theirs()
    assert usual is not None and usual.is_near(checkpoint.ours())
    assert usual.error < float("inf"), "computed before the file is changed"
    for changes in rounds(ignored(checkpoint)):
        change = find_effect(checkpoint, changes, usual)
        assert change is None, f"{change} has no effect here, but it has one in transformers"
