"""Whether an adapter fits its base model, and what it replaces there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..architectures import hoisted
from ..checkpoint import Adapter, Checkpoint
from ..checkpoint.gguf_names import hf_rows, is_converted, vocabulary_tensors
from ..checkpoint.peft_config import MERGE
from ..errors import AdapterError
from ..graph import Graph, Weight
from .matrices import embeddings


def refuse_other_base(checkpoint: Checkpoint, adapter: Adapter) -> None:
    """Raises for a GGUF adapter of another architecture, or of a model that is not in GGUF."""
    if adapter.architecture is None:
        return
    if checkpoint.container != "gguf":
        raise AdapterError(
            "a GGUF adapter is for a GGUF model",
            path=adapter.path,
            found=f"{checkpoint.path}, in {checkpoint.container}",
            hint="Give the adapter's PEFT directory, or the model's GGUF file",
        )
    base = checkpoint.metadata["general.architecture"]
    if base != adapter.architecture:
        raise AdapterError(
            "the adapter is for another architecture",
            path=adapter.path,
            expected=f"{base}, as in {checkpoint.path}",
            found=adapter.architecture,
            hint="Give the model that the adapter was trained on",
        )


def refuse_tied(graph: Graph, adapter: Adapter) -> None:
    """Raises where an embedding that is also the head is replaced: PEFT's head then stays as it was."""
    for table in embeddings(graph) & {op.operands.get("weight") for op in graph.ops}:
        if isinstance(table, Weight) and hoisted(table.name) in map(hoisted, adapter.tensors):
            raise AdapterError(
                "the adapter replaces an embedding to which the head is tied",
                path=adapter.path,
                tensor=table.name,
                hint=MERGE,
            )


def stored_rows(name: str, n: int, checkpoint: Checkpoint, adapter: Adapter) -> NDArray[np.intp] | slice:
    """Which of the adapter's n rows each row of the matrix in the model's file is."""
    if checkpoint.container != "gguf" or adapter.architecture is not None:
        return slice(None)
    architecture = checkpoint.metadata["general.architecture"]
    if is_converted(architecture, name):
        raise AdapterError(
            "GGUF files of this architecture hold the matrix in a form that the adapter does not fit",
            path=adapter.path,
            tensor=name,
            hint="Give the model as a Hugging Face directory, or the adapter as GGUF",
        )
    rows = hf_rows(architecture, name, n, checkpoint.config)
    return slice(None) if rows is None else rows


def with_tensors(checkpoint: Checkpoint, adapter: Adapter) -> Checkpoint:
    """The checkpoint with those tensors that the adapter holds whole."""
    names = {hoisted(name): name for name in checkpoint.tensors}
    replaced = {}
    for name, tensor in adapter.tensors.items():
        stored = names.get(hoisted(name))
        if stored is None or checkpoint.tensors[stored].shape != tensor.shape:
            found = "none" if stored is None else str(list(checkpoint.tensors[stored].shape))
            raise AdapterError(
                "the model has no tensor of that name and shape for the adapter to replace",
                path=adapter.path,
                tensor=tensor.name,
                expected=f"{name} {list(tensor.shape)} in {checkpoint.path}",
                found=found,
                hint="Give the model that the adapter was trained on",
            )
        if checkpoint.container == "gguf" and name not in vocabulary_tensors(
            checkpoint.metadata["general.architecture"]
        ):
            raise AdapterError(
                "the adapter replaces a tensor that GGUF files may hold in another form",
                path=adapter.path,
                tensor=tensor.name,
                hint="Give the model as a Hugging Face directory",
            )
        if stored in replaced:
            raise AdapterError(f"another tensor stands for {stored}, too", path=adapter.path, tensor=tensor.name)
        replaced[stored] = replace(tensor, name=stored)
    return replace(checkpoint, tensors={**checkpoint.tensors, **replaced})
