"""Options whose distributions the tests compare with transformers."""

from typing import Any

CASES: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 2.0},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_k": 1000},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 1.5, "top_p": 0.95},
    {"temperature": 1.0, "top_p": 0.0},
    {"temperature": 1.0, "min_p": 0.2},
    {"temperature": 1.0, "min_p": 1.0},
    {"temperature": 1.0, "repetition_penalty": 1.5},
    {"temperature": 1.0, "repetition_penalty": 0.7},
    {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2},
]
