"""Attention: projections, head norms, rotation, cache, mixing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import CorruptFile
from ...graph import CacheLayer, Experts, Graph, Value, Weight
from ..config import Config
from ..weights import Rows, Weights
from .basic import Norm, linear
from .rotation import Rotation

QKV = tuple[Value, Value, Value]


@dataclass(frozen=True)
class Heads:
    """Query heads, key/value heads, and values in a head."""

    q: int
    kv: int
    dim: int

    @classmethod
    def of(cls, c: Config, q: int, kv: int, dim: int) -> Heads:
        """Raises CorruptFile for numbers of which no model can be made."""
        if q % kv or not dim:
            found = f"{q} query heads, {kv} key/value heads, {dim} values in a head"
            raise CorruptFile(
                "the config's heads", path=c.path, expected="as many query heads for each key/value head", found=found
            )
        return cls(q, kv, dim)

    @classmethod
    def read(cls, c: Config) -> Heads:
        """From the keys that most configs share."""
        hidden, q = c.integer("hidden_size"), c.integer("num_attention_heads")
        return cls.of(c, q, c.integer("num_key_value_heads", q), c.integer("head_dim", hidden // q))


def project_qkv(
    g: Graph, x: Value, w: Weights, heads: Heads, *, names: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj")
) -> QKV:
    """Queries [tokens, heads.q * dim], keys and values [tokens, heads.kv * dim] from three matrices."""
    q, k, v = names
    with g.stage("qkv"):
        return (
            linear(g, x, w, q, heads.q * heads.dim),
            linear(g, x, w, k, heads.kv * heads.dim),
            linear(g, x, w, v, heads.kv * heads.dim),
        )


def fused_qkv(
    g: Graph,
    x: Value,
    w: Weights,
    name: str,
    heads: Heads,
    *,
    by_parts: bool,
    transposed: bool = False,
) -> QKV:
    """As project_qkv, from one matrix.

    Its rows are all of q, of k, of v (`by_parts`) or, for each key/value head, its queries, key and value.
    """
    n_q, n_kv = heads.q * heads.dim, heads.kv * heads.dim
    rows: list[Rows]
    if by_parts:
        rows = [range(n_q), range(n_q, n_q + n_kv), range(n_q + n_kv, n_q + 2 * n_kv)]
    else:
        group = heads.q // heads.kv
        grouped = np.arange(n_q + 2 * n_kv).reshape(heads.kv, group + 2, heads.dim)
        rows = [part.reshape(-1) for part in np.split(grouped, [group, group + 1], axis=1)]
    with g.stage("qkv"):
        q, k, v = (linear(g, x, w, name, len(part), rows=part, transposed=transposed) for part in rows)
    return q, k, v


def attend(
    g: Graph,
    q: Value,
    k: Value,
    v: Value,
    heads: Heads,
    *,
    scale: float,
    rotation: Rotation | None,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Weight | None = None,
    slopes: Weight | None = None,
) -> Value:
    """Rotates q and k, appends k and v to a new cache layer, and attends -> [tokens, heads.q * dim]."""
    if rotation is not None:
        with g.stage("rope"):
            q, k = rotation(g, q, heads.dim), rotation(g, k, heads.dim)
    cache: CacheLayer = g.cache(heads.kv, heads.dim, heads.dim, window)
    with g.stage("kv append"):
        g.kv_append(cache, k, v)
    with g.stage("attention"):
        return g.attention(q, cache, scale=scale, window=window, softcap=softcap, sinks=sinks, slopes=slopes)


def self_attention(
    g: Graph,
    x: Value,
    w: Weights,
    heads: Heads,
    *,
    rotation: Rotation | None,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
    qk_norm: Norm | None = None,
    norm_names: tuple[str, str] = ("q_norm", "k_norm"),
    whole_rows: bool = False,
    shared_norms: bool = True,
    output: str = "o_proj",
    clip: float = 0.0,
    sharpen: Callable[[Value], Value] = lambda q: q,
) -> Value:
    """Grouped-query attention over a new cache layer -> [tokens, hidden]. Biases are used where the file has them.

    `scale` is 1 / sqrt(dim) by default. `qk_norm` normalises queries and keys before the rotation, per head or, with
    `whole_rows`, over all heads together. `clip` limits what norms make of q and k, and v; `sharpen` is applied to q.
    """
    q, k, v = project_qkv(g, x, w, heads)
    if qk_norm is not None:
        with g.stage("qk norm"):
            q_groups, k_groups = (1, 1) if whole_rows else (heads.q, heads.kv)
            q = qk_norm(g, q, w, norm_names[0], groups=q_groups, shared=shared_norms)
            k = qk_norm(g, k, w, norm_names[1], groups=k_groups, shared=shared_norms)
    if clip:
        with g.stage("qkv clip"):
            q, k, v = g.clamp(q, clip), g.clamp(k, clip), g.clamp(v, clip)
    scale = heads.dim**-0.5 if scale is None else scale
    mixed = attend(g, sharpen(q), k, v, heads, scale=scale, rotation=rotation, window=window, softcap=softcap)
    with g.stage("attention output"):
        return linear(g, mixed, w, output, x.width)


def latent_attention(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    heads: int,
    plain: int,
    rotated: int,
    v_dim: int,
    q_rank: int,
    kv_rank: int,
    norm: Norm,
    scale: float,
    rotation: Rotation | None,
    split_kv_up: bool,
    sharpen: Callable[[Value], Value] = lambda q: q,
    select: Callable[[Value], Value] | None = None,
) -> Value:
    """Multi-head latent attention (DeepSeek-AI 2024) over a new latent cache layer -> [tokens, hidden].

    A head's query and key have `plain` values and `rotated` ones; `q_rank` 0 means that queries have no latent of their
    own. The matrix from latents to keys and values is one, [heads * (plain + v_dim), kv_rank], or with `split_kv_up`
    two, [heads, kv_rank, plain] and [heads, v_dim, kv_rank]. `select` makes of the latents of queries the positions to
    attend to.
    """
    with g.stage("qkv"):
        q_name, q_input = "q_proj", x
        if q_rank:
            q_name, q_input = "q_b_proj", norm(g, linear(g, x, w, "q_a_proj", q_rank), w, "q_a_layernorm")
        by_head = np.arange(heads * (plain + rotated)).reshape(heads, -1)
        q = linear(g, q_input, w, q_name, heads * plain, rows=by_head[:, :plain].reshape(-1))
        q_rotated = linear(g, q_input, w, q_name, heads * rotated, rows=by_head[:, plain:].reshape(-1))
        latent = linear(g, x, w, "kv_a_proj_with_mqa", kv_rank, rows=range(kv_rank))
        latent = norm(g, latent, w, "kv_a_layernorm")
        key = linear(g, x, w, "kv_a_proj_with_mqa", rotated, rows=range(kv_rank, kv_rank + rotated))
    if rotation is not None:
        with g.stage("rope"):
            q_rotated, key = rotation(g, q_rotated, rotated), rotation(g, key, rotated)
    selected = None if select is None else select(q_input)
    cache = g.latent_cache(rotated, kv_rank)
    with g.stage("kv append"):
        g.kv_append(cache, key, latent)
    if split_kv_up:
        k_up = w.experts("k_b_proj", heads, kv_rank, plain)
        v_up = w.experts("v_b_proj", heads, v_dim, kv_rank)
    else:
        of_head = [range(h * (plain + v_dim), (h + 1) * (plain + v_dim)) for h in range(heads)]
        k_up = Experts(tuple(w.turned_matrix("kv_b_proj.weight", plain, kv_rank, rows=r[:plain]) for r in of_head))
        v_up = Experts(tuple(w.matrix("kv_b_proj.weight", v_dim, kv_rank, rows=r[plain:]) for r in of_head))
    with g.stage("attention"):
        q, q_rotated = sharpen(q), sharpen(q_rotated)
        mixed = g.latent_attention(q, q_rotated, cache, k_up, v_up, scale=scale, selected=selected)
    with g.stage("attention output"):
        return linear(g, mixed, w, "o_proj", x.width)


def index_selection(
    g: Graph, x: Value, latent: Value, w: Weights, *, heads: int, dim: int, rotation: Rotation, top: int
) -> Value:
    """The positions to attend to, by a lightning indexer (DeepSeek-AI 2025) over a new index cache -> [tokens, top].

    `latent` are the latents of queries; `rotation` turns the first values of each index query and key.
    """
    with g.stage("index"):
        q = rotation(g, linear(g, latent, w, "wq_b", heads * dim), dim)
        k = Norm(1e-6, kind="layer")(g, linear(g, x, w, "wk", dim), w, "k_norm")
        cache = g.index_cache(dim)
        g.index_append(cache, rotation(g, k, dim))
        weights = g.scale(linear(g, x, w, "weights_proj", heads), heads**-0.5)
        return g.select_positions(q, weights, cache, top=top, scale=dim**-0.5)
