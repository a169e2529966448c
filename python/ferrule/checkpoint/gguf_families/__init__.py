"""What each GGUF architecture calls its tensors and metadata, where it differs from the tables that all share.

Source: what llama.cpp's converters write for these families.
"""

from __future__ import annotations

from . import attention, own_names, recurrent
from .family import Family

FAMILIES = {**attention.FAMILIES, **own_names.FAMILIES, **recurrent.FAMILIES}

__all__ = ["FAMILIES", "Family"]
