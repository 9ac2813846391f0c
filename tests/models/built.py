"""Every instruction set and precision of this processor that the kernels were built for."""

import pytest

from embedwell_models.cpu_backend.library import ISAS, SHORT_SUMS, best_isa, features, supports
from embedwell_models.cpu_backend.prepack import PRECISIONS

# Without a compiler at installation there are no libraries, and torch's layers are used: then
# there is nothing here to compare.
PAIRS = [
    (name, dtype)
    for name, needed in ISAS.items()
    for dtype in PRECISIONS
    if dtype != "int4"  # the products are those of int8: see cpu_backend/test_four_bits.py
    if needed <= features() and supports(name, dtype)
]
BUILT = [pytest.param(*pair, id="-".join(pair)) for pair in PAIRS]
# Kernels that differ from others in an instruction alone share the code around it.
ALIKE = {"avxvnni": "avx2", "vnni": "avx512", "bf16": "avx512", "dotprod": "neon"}
LAYOUTS = {(ALIKE.get(isa, isa), dtype): (isa, dtype) for isa, dtype in reversed(PAIRS)}
layouts = pytest.mark.parametrize(
    ("kernels", "dtype"), [BUILT[PAIRS.index(pair)] for pair in LAYOUTS.values()]
)
SHORT = best_isa("int8") in SHORT_SUMS  # then the weights of int8 are rounded in larger steps
kernels = pytest.mark.parametrize(("kernels", "dtype"), BUILT)
