"""What the timed run of every engine reads and prints."""

import json
import random
import resource


def random_tokens(count: int) -> list[int]:
    """The same ids in every run, of those that all vocabularies have."""
    draw = random.Random(0)
    return [draw.randrange(10, 49000) for _ in range(count)]


def print_result(*, prefill: float, decode: float, load: float) -> None:
    """One line of JSON: tokens per second of both phases, seconds of loading, and this process's most memory so far."""
    result = {
        "prefill_tokens_per_second": prefill,
        "decode_tokens_per_second": decode,
        "load_seconds": load,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result))
