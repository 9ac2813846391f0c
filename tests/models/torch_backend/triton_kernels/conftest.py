"""What Triton's interpreter needs, in which the tests marked `interpreter` run without a GPU."""

from typing import Any

import pytest
from triton import knobs
from triton.runtime import interpreter


@pytest.fixture(autouse=True)
def _is_in_interpreter(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("interpreter") and not knobs.runtime.interpret:
        pytest.fail("set TRITON_INTERPRET=1: `make test-triton` does")


def _scalar(tensor: Any) -> int:
    return int(tensor.handle.data.item())


def pytest_configure(config: pytest.Config) -> None:
    """Let scalars bound loops: for Triton 3.6 they are arrays of one element, for numpy 2.4 not.

    The interpreter computes also what is masked, so that numpy warns.
    """
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning:triton")
    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: type, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", _scalar)

    interpreter._patch_lang_tensor = patched
