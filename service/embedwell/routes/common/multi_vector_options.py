"""Fields for smaller results of token vectors: token pooling and MUVERA."""

from typing import Annotated

from pydantic import Field

from embedwell.errors import service_errors
from embedwell.routes.common.body import Body
from embedwell_models.encoder.muvera import LARGEST, Muvera
from embedwell_models.encoder.token_pooling import MAX_FACTOR

PoolFactor = Annotated[int, Field(ge=1, le=MAX_FACTOR)]
"""Divisor of the number of a document's token vectors."""


class MuveraOptions(Body):
    """Options of MUVERA's encodings, by the names and with the defaults of fastembed.

    - `k_sim`: number of hyperplanes, which part the space into 2^k_sim clusters.
    - `dim_proj`: dimensions of a cluster, at most those of a token's vector.
    - `r_reps`: repetitions with other hyperplanes.
    - `seed`: of the random numbers.
    """

    k_sim: Annotated[int, Field(ge=1, le=LARGEST["k_sim"])] = 5
    dim_proj: Annotated[int, Field(ge=1, le=LARGEST["dim_proj"])] = 16
    r_reps: Annotated[int, Field(ge=1, le=LARGEST["r_reps"])] = 20
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 42

    def encoder(self, dim: int) -> Muvera:
        """Build the encoder for token vectors of `dim` dimensions; raises BadRequest."""
        with service_errors():
            return Muvera(dim, self.k_sim, self.dim_proj, self.r_reps, self.seed)
