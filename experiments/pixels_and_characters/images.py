"""Images as sequences of numbers: the files of MNIST, drawn bars in their place, and the order in which pixels come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.loading import content_of

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Whole = NDArray[np.int64]

SIDE, CLASSES = 28, 10
HELD = 10_000  # the last images of the training file, which validate
MAGIC = {1: 0x801, 3: 0x803}  # of files of bytes, by the number of axes
SOURCES = ("mnist", "bars")
ORDERS = ("rows", "permuted", "anew")
PERMUTATION = 100  # seed of the authors' permutation
DRAWN, SHUFFLED, SCRAMBLED = 7, 8, 9  # streams of random numbers


class Labelled(NamedTuple):
    """Images and what they show."""

    images: Bytes  # (n, 28, 28), 0 is black
    labels: Whole  # (n,), 0 .. 9


class Parts(NamedTuple):
    training: Labelled
    validation: Labelled
    test: Labelled


def parts(source: str, training: int | None = None, evaluated: int | None = None) -> Parts:
    """Images to train on, to validate by and to test on: all there are, or at most so many of each, the first ones.

    source: "mnist", 50 000, 10 000 (the last of the training file) and 10 000; or "bars", see `bars`. Raises
    CorpusUnavailable if the files are neither here nor to be had, ValueError for damaged ones and for another source.
    """
    if source not in SOURCES:
        raise ValueError(f"images: one of {', '.join(SOURCES)} is allowed, got {source!r}")
    if source == "bars":
        drawn = [bars(count, seed) for seed, count in enumerate((training or 500, evaluated or 200, evaluated or 200))]
        return Parts(*drawn)
    known, test = mnist("train"), mnist("t10k")
    split = [Labelled(known.images[:-HELD], known.labels[:-HELD]), Labelled(known.images[-HELD:], known.labels[-HELD:])]
    few = [training, evaluated, evaluated]
    return Parts(*(Labelled(a[:n], b[:n]) for (a, b), n in zip([*split, test], few, strict=True)))


def mnist(part: str, *, download: bool = True) -> Labelled:
    """The files "train", 60 000 images, or "t10k", 10 000, from the data folder, the cache or the network.

    Raises CorpusUnavailable if they are not here and cannot be had (or `download` is false), ValueError if damaged.
    """
    found = entry("mnist")
    names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
    images, labels = (
        idx(content_of(found, name, download)[0], axes, name) for name, axes in zip(names, (3, 1), strict=True)
    )  # fmt: skip
    if len(images) != len(labels):
        raise ValueError(f"{names[0]}: {len(images)} images and {len(labels)} labels, as many are needed")
    return Labelled(images, labels.astype(np.int64))


def idx(data: bytes, axes: int, what: str) -> Bytes:
    """The array of an IDX file of bytes: a magic number, a size for each of the axes, all big-endian, and the numbers.

    Raises ValueError for another magic number and for a file that is shorter or longer than its sizes say.
    """
    header = 4 + 4 * axes
    if len(data) < header:
        raise ValueError(f"{what}: cut off: a header of {header} bytes is needed, got {len(data)} bytes")
    magic, *shape = np.frombuffer(data[:header], dtype=">u4").tolist()
    if magic != MAGIC[axes]:
        raise ValueError(
            f"{what}: magic number {MAGIC[axes]} is needed, of bytes on {axes} axes (IDX), got {magic}; "
            "is it another file, or still compressed?"
        )
    size = header + int(np.prod(shape, dtype=np.int64))
    if len(data) != size:
        state = "cut off" if len(data) < size else "too long"
        raise ValueError(f"{what}: {state}: {size} bytes are needed for shape {tuple(shape)}, got {len(data)}")
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(shape)


def bars(n: int, seed: int) -> Labelled:
    """Images of one bright bar, four pixels wide, on noise: class c of ten, lying (c < 5) or
    upright, at 5 c mod 25 plus 0 to 2.

    They stand in where what is shown is that everything runs; nobody's digits are needed.
    """
    random = np.random.default_rng([seed, n, DRAWN])
    labels = random.integers(CLASSES, size=n)
    images = random.integers(40, size=(n, SIDE, SIDE)).astype(np.uint8)
    for image, label in zip(images, labels.tolist(), strict=True):
        start = 5 * (label % 5) + int(random.integers(3))
        (image if label < 5 else image.T)[start : start + 4] = 230
    return Labelled(images, labels)


def pooled(images: Bytes, side: int) -> Floats:
    """Means over squares of pixels, between 0 and 1: (n, 28, 28) to (n, side^2), row by row."""
    if side < 1 or SIDE % side:
        raise ValueError(f"side: a divisor of {SIDE} is allowed, got {side}")
    block = SIDE // side
    means: Floats = images.reshape(-1, side, block, side, block).astype(np.float32).mean(axis=(2, 4)) / 255
    return means.reshape(len(images), -1)


def order_of(order: str, pixels: int) -> Whole | None:
    """Places of the pixels in the order in which they come: "rows", or "permuted".

    At 784 pixels the permutation is that of the authors' code; at another number another one, of the same generator.
    None for "anew", where each image has an order of its own. Raises ValueError for an unknown order.
    """
    if order not in ORDERS:
        raise ValueError(f"order: one of {', '.join(ORDERS)} is allowed, got {order!r}")
    if order == "anew":
        return None
    if order == "rows":
        return np.arange(pixels)
    return np.random.RandomState(PERMUTATION).permutation(pixels)  # the generator of the authors


def in_steps(pixels: Floats, order: Whole | None, together: int, seed: Any) -> Floats:
    """Sequences (n, steps, together) of images (n, pixels): `together` pixels at each step.

    order: as of `order_of`; without one the pixels of each image are shuffled by numbers drawn from `seed`. Raises
    ValueError where the pixels are no multiple of `together`.
    """
    count = pixels.shape[1]
    if together < 1 or count % together:
        raise ValueError(f"together: a divisor of {count} pixels is allowed, got {together}")
    if order is None:
        arranged = np.random.default_rng(seed).permuted(pixels, axis=1)
    else:
        arranged = pixels[:, order]
    return arranged.reshape(len(pixels), count // together, together)
