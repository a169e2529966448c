"""embedding against the NumPy decoders: equal to the bit."""

import numpy as np
import pytest
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS
from metal.formats import METAL_FORMATS
from metal.metal_runner import MetalRunner


@pytest.mark.parametrize("name", METAL_FORMATS)
@pytest.mark.parametrize("scale", [1.0, 33.94112549695428])
def test_embedding(runner: MetalRunner, name: str, scale: float) -> None:
    n, k = 7, 517 if name in FLOATS else 512
    matrix = make_matrix(name, n, k, np.random.default_rng(FORMATS[name].ggml_type))
    tokens = np.array([6, 0, 3, 3], np.int32)
    out = runner.run(
        f"embedding_{name.lower()}",
        {"tokens": tokens, "table": matrix.data},
        {"k": k, "n": n, "scale": scale},
        len(tokens),
        (len(tokens), k),
        misalign={"table": 4},
    )
    np.testing.assert_array_equal(out, np.float32(scale) * matrix.values[tokens].astype(np.float32))
