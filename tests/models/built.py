"""Every instruction set and precision of this processor that the kernels were built for."""

import pytest

from embedwell_models.cpu_backend.library import ISAS, SHORT_SUMS, best_isa, features, supports
from embedwell_models.cpu_backend.prepack import PRECISIONS

# Without a compiler at installation there are no libraries, and torch's layers are used: then
# there is nothing here to compare.
BUILT = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name, needed in ISAS.items()
    for dtype in PRECISIONS
    if dtype != "int4"  # the products are those of int8: see cpu_backend/test_four_bits.py
    if needed <= features() and supports(name, dtype)
]
SHORT = best_isa("int8") in SHORT_SUMS  # then the weights of int8 are rounded in larger steps
kernels = pytest.mark.parametrize(("kernels", "dtype"), BUILT)
