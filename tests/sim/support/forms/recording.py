"""What is kept of a GPU's results: a digest of all of them and samples, for each form."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.sim.support.forms.form import Form

Values = npt.NDArray[np.uint64]

SAMPLES = 40  # of an exact form, whose digest covers all
APPROXIMATE_SAMPLES = 512


@dataclass(frozen=True, slots=True)
class Recorded:
    """One form on the GPU: destinations of the operands `at`."""

    digest: bytes
    at: npt.NDArray[np.int64]
    d: Values
    q: Values


def digest(d: Values, q: Values) -> bytes:
    """Eight bytes that depend on all results."""
    return hashlib.blake2b(d.tobytes() + q.tobytes(), digest_size=8).digest()


def sampled(form: Form, count: int) -> npt.NDArray[np.int64]:
    """The operands that are kept: spread over edge cases and random ones."""
    wanted = SAMPLES if form.ulps is None else APPROXIMATE_SAMPLES
    return (np.arange(wanted) * (count - 1) // (wanted - 1)).astype(np.int64)


def condense(results: dict[str, tuple[Form, Values, Values]], path: Path) -> None:
    """Write what is kept of the results of all forms, by name."""
    digests, samples = [], []
    for form, d, q in results.values():
        digests.append(digest(d, q))
        at = sampled(form, d.size)
        samples += [d[at], q[at]]
    np.savez_compressed(
        path,
        names=np.frombuffer("\n".join(results).encode(), np.uint8),
        digests=np.frombuffer(b"".join(digests), np.uint8),
        samples=np.concatenate(samples),
    )


def load(path: Path, forms: tuple[Form, ...], counts: list[int]) -> dict[str, Recorded]:
    """What was kept, by the name of the form."""
    with np.load(path) as file:
        names = file["names"].tobytes().decode().split("\n")
        digests = file["digests"].tobytes()
        samples = file["samples"]
    by_name = {form.name: (form, count) for form, count in zip(forms, counts, strict=True)}
    recorded, begin = {}, 0
    for index, name in enumerate(names):
        form, count = by_name[name]
        at = sampled(form, count)
        d, q = samples[begin : begin + at.size], samples[begin + at.size : begin + 2 * at.size]
        begin += 2 * at.size
        recorded[name] = Recorded(digests[8 * index : 8 * index + 8], at, d, q)
    return recorded
