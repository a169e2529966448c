"""embedding against the NumPy decoders: equal to the bit."""

import numpy as np
import pytest
from kernel_testing import Runner
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS

NO_NORM = {"eps": 0.0, "weight_offset": 0.0}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("scale", [1.0, 33.94112549695428])
def test_embedding(runner: Runner, name: str, scale: float) -> None:
    n, k = 7, 517 if name in FLOATS else 512
    matrix = make_matrix(name, n, k, np.random.default_rng(FORMATS[name].ggml_type))
    tokens = np.array([6, 0, 3, 3], np.int32)
    out = runner.run(
        f"embedding_{name.lower()}",
        {"tokens": tokens, "table": matrix.data},
        {**NO_NORM, "k": k, "n": n, "scale": scale},
        len(tokens),
        (len(tokens), k),
        misalign={"table": runner.LEAST_ALIGNMENT},
    )
    np.testing.assert_array_equal(out, np.float32(scale) * matrix.values[tokens].astype(np.float32))


@pytest.mark.parametrize("token", [-1, 7])
def test_a_token_outside_the_table_gives_nan(runner: Runner, token: int) -> None:
    table, tokens = np.ones((7, 8), np.float32), np.array([token], np.int32)
    params = {**NO_NORM, "k": 8, "n": 7, "scale": 1.0}
    assert np.isnan(runner.run("embedding_f32", {"tokens": tokens, "table": table}, params, 1, (1, 8))).all()
